from azureml.core.compute import AmlCompute, KubernetesCompute  # noqa: F401
from azureml.pipeline.core._names import PipelineParameter, PipelineStep  # noqa: F401
from azureml.pipeline.steps._names import MpiStep, PythonScriptStep  # noqa: F401
