"""./outputs of a part. Nodes of one machine share one folder, as scripts of v1's years expect: there the nodes of a run
worked on one mounted share, and let one rank fetch or write what the others wait for."""

import contextlib
import os

from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder

OUTPUTS = "outputs"


def make_outputs(folder: AttemptFolder, plan: LaunchPlan) -> None:
    """Have ./outputs there: a folder, or on node K above 0 of a machine's gang a link to node 0's."""
    own = folder.work / OUTPUTS
    if plan.node == 0 or not plan.shares_outputs:
        own.mkdir(exist_ok=True)
        return
    first = AttemptFolder(folder.home, plan.attempt_id).work
    # Node 0 may not have begun. Where it has gone already nothing is made anew: this part will be told to stop.
    for missing in (first, first / OUTPUTS):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.mkdir(missing)
    with contextlib.suppress(FileExistsError):
        own.symlink_to(first / OUTPUTS)


def shows_outputs_of_another(folder: AttemptFolder) -> bool:
    """Whether another part collects what lies there. A script may have put a folder of its own in the link's place."""
    return (folder.work / OUTPUTS).is_symlink()
