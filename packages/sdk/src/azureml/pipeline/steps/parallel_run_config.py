from azureml.pipeline.steps._names import ParallelRunConfig  # noqa: F401
