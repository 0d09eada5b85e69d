from azureml.pipeline.steps._names import ParallelRunStep  # noqa: F401
