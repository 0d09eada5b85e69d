from azureml.pipeline.steps import AdlaStep  # noqa: F401
