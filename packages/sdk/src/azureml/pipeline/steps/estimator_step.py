from azureml.pipeline.steps import EstimatorStep, PythonScriptStep  # noqa: F401
