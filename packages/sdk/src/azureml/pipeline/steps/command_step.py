from azureml.core import ScriptRunConfig  # noqa: F401
from azureml.pipeline.steps._names import CommandStep  # noqa: F401
