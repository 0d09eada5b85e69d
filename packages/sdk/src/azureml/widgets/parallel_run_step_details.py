from azureml._not_yet import not_yet


class ParallelRunStepDetails:
    """Comes with pipelines; using it raises NotYetException."""

    def __init__(self, run_instance=None, step_name=None, workspace=None, run_id=None, step_run_id=None):
        raise not_yet("azureml.widgets.ParallelRunStepDetails", 4)

    def show(self):
        raise not_yet("azureml.widgets.ParallelRunStepDetails", 4)
