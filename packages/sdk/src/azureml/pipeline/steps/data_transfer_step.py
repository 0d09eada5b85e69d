from azureml.pipeline.steps import DataTransferStep  # noqa: F401
