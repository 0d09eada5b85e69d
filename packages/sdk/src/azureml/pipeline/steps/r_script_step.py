from azureml.core import RunConfiguration  # noqa: F401
from azureml.pipeline.steps._names import RScriptStep  # noqa: F401
