from azureml.pipeline.steps._names import DatabricksStep  # noqa: F401
