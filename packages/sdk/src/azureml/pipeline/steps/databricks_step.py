from azureml.pipeline.steps import DatabricksStep  # noqa: F401
