from azureml.pipeline.steps import ParallelRunConfig  # noqa: F401
