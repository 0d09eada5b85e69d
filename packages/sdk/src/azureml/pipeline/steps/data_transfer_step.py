from azureml.pipeline.steps._names import DataTransferStep  # noqa: F401
