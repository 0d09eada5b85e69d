from azureml.pipeline.steps._names import ModuleStep  # noqa: F401
