from azureml.pipeline.steps._names import SynapseSparkStep  # noqa: F401
