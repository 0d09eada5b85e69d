from azureml.pipeline.steps import PythonScriptStep  # noqa: F401
