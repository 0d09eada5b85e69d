from azureml.pipeline.steps import ModuleStep  # noqa: F401
