from azureml.pipeline.core import Pipeline  # noqa: F401
