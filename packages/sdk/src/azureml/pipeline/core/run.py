from azureml.core import Experiment, Run, ScriptRun  # noqa: F401
from azureml.exceptions import ActivityFailedException, AzureMLException, ExperimentExecutionException  # noqa: F401
from azureml.pipeline.core import PipelineRun, StepRun, StepRunOutput  # noqa: F401
