from azureml.core.compute import AmlCompute, KubernetesCompute  # noqa: F401
from azureml.pipeline.core import PipelineParameter, PipelineStep  # noqa: F401
from azureml.pipeline.steps import MpiStep, PythonScriptStep  # noqa: F401
