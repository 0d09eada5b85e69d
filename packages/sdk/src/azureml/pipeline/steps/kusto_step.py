from azureml.pipeline.steps import KustoStep  # noqa: F401
