from azureml._unsupported import not_yet
from azureml.core.run import Run  # noqa: F401
from azureml.core.workspace import Workspace  # noqa: F401


class ParallelRunStepDetails:
    """Part of pipelines; using it raises NotYetException."""

    def __init__(self, run_instance=None, step_name=None, workspace=None, run_id=None, step_run_id=None):
        raise not_yet("azureml.widgets.ParallelRunStepDetails")

    def show(self):
        raise not_yet("azureml.widgets.ParallelRunStepDetails")
