from azureml.pipeline.steps._names import EstimatorStep, PythonScriptStep  # noqa: F401
