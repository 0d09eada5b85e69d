import os

from azureml.exceptions import UserErrorException
from azureml.tensorboard._event_file import EventFile

__all__ = ["export_to_tensorboard"]


def export_to_tensorboard(run_data, logsdir, logger=None, recursive=True):
    """Write the numeric metrics of a run, a list of runs or an experiment as TensorBoard event files.

    Each run gets a folder of its id below `logsdir`; with `recursive` its children get theirs below it.
    """
    for run in _runs(run_data):
        _export(run, logsdir, recursive)


def _runs(run_data):
    from azureml.core.experiment import Experiment
    from azureml.core.run import Run

    if isinstance(run_data, Experiment):
        return list(run_data.get_runs())
    runs = list(run_data) if isinstance(run_data, (list, tuple)) else [run_data]
    for run in runs:
        if not isinstance(run, Run):
            raise UserErrorException("run_data must be a Run, a list of runs or an Experiment, got {}.".format(
                type(run).__name__))
    return runs


def _export(run, folder, recursive):
    target = os.path.join(folder, run.id)
    os.makedirs(target, exist_ok=True)
    with EventFile(target) as events:
        for name, value in sorted(run.get_metrics().items()):
            _write(events, name, value)
    if recursive:
        for child in run.get_children():
            _export(child, target, recursive)


def _write(events, name, value):
    if isinstance(value, dict):
        for column, values in sorted(value.items()):
            _write(events, "{}/{}".format(name, column), values)
        return
    for step, number in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(number, (int, float)):
            events.scalar(name, float(number), step)
