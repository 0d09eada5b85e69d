from azureml.pipeline.steps._names import PythonScriptStep  # noqa: F401
