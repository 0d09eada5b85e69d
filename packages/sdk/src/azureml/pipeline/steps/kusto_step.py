from azureml.pipeline.steps._names import KustoStep  # noqa: F401
