from azureml.pipeline.steps._names import AdlaStep  # noqa: F401
