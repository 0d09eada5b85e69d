"""The earlier runs that a sweep begins from."""
from azureml.core.run import Run
from azureml.train.hyperdrive._settings import InvalidSetting

SWEEP_TYPE = "hyperdrive"


def checked_sweeps(resume_from, most):
    """The ids of the sweeps to learn from: a HyperDriveRun, or a list of them."""
    runs = _runs("resume_from", resume_from, most)
    for run in runs:
        if run.type != SWEEP_TYPE:
            raise InvalidSetting("resume_from takes sweeps (HyperDriveRun), and run %s is of type %s." % (
                run.id, run.type))
    return [run.id for run in runs]


def checked_children(resume_child_runs, most):
    """The ids of the children of sweeps to begin again: a run, or a list of them."""
    runs = _runs("resume_child_runs", resume_child_runs, most)
    for run in runs:
        if not run._record.get("parent_id"):
            raise InvalidSetting("resume_child_runs takes children of sweeps, and run %s has no parent." % run.id)
    return [run.id for run in runs]


def _runs(name, given, most):
    runs = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    strange = [run for run in runs if not isinstance(run, Run)]
    if strange:
        raise InvalidSetting("%s must be a run or a list of runs, got %r. Look a run up by its id with "
                             "workspace.get_run(run_id)." % (name, strange[0]))
    if len(runs) > most:
        raise InvalidSetting("%s takes at most %d runs, got %d." % (name, most, len(runs)))
    if len({run.id for run in runs}) != len(runs):
        raise InvalidSetting("%s names a run twice." % name)
    return runs
