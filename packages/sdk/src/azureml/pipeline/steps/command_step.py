from azureml.core import ScriptRunConfig  # noqa: F401
from azureml.pipeline.steps import CommandStep  # noqa: F401
