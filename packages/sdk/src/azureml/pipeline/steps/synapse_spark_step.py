from azureml.pipeline.steps import SynapseSparkStep  # noqa: F401
