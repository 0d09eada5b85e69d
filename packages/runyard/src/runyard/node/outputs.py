import contextlib
import os

from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder

OUTPUTS = "outputs"


def make_outputs(folder: AttemptFolder, plan: LaunchPlan) -> None:
    """Make ./outputs: a folder, or, where nodes are slots of one machine, on all but node 0 a link to node 0's.

    Scripts for SDK v1 expect it: all nodes of a run worked on one mounted share, and one rank fetched or wrote files
    that the others waited for.
    """
    own = folder.work / OUTPUTS
    if plan.node == 0 or not plan.shares_outputs:
        own.mkdir(exist_ok=True)
        return
    first = AttemptFolder(folder.home, plan.attempt_id).work
    # Node 0 may not have begun. If it has ended, its folder is not made again: this task is about to be stopped.
    for missing in (first, first / OUTPUTS):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.mkdir(missing)
    with contextlib.suppress(FileExistsError):
        own.symlink_to(first / OUTPUTS)


def shows_outputs_of_another(folder: AttemptFolder) -> bool:
    """Tell whether another task uploads ./outputs. A script may have replaced the link by a folder of its own."""
    return (folder.work / OUTPUTS).is_symlink()
