from azureml.pipeline.steps import ParallelRunStep  # noqa: F401
