from azureml.core import RunConfiguration  # noqa: F401
from azureml.pipeline.steps import RScriptStep  # noqa: F401
