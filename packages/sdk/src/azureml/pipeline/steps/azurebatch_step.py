from azureml.pipeline.steps import AzureBatchStep  # noqa: F401
