from azureml.pipeline.steps._names import AzureBatchStep  # noqa: F401
