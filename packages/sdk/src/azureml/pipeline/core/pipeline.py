from azureml.pipeline.core._names import Pipeline  # noqa: F401
