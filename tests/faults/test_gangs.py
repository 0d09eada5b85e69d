"""kill -9 of every process behind a run on several nodes, at every phase: its end is true and names who began it,
comes within seconds, and nothing is left on the machine.

CI kills one process of each kind; `make faults` the whole matrix.
"""

import os
import re
import time
from pathlib import Path

import pytest

from tests.faults.gangs import HOLDS, Gang
from tests.faults.yard import Yard, ended, message_of

pytestmark = pytest.mark.slow

FULL = os.environ.get("RUNYARD_FAULTS") == "full"
NODES = {"mpi": 3, "torch": 4, "ps": 2} if FULL else {"mpi": 2, "torch": 2, "ps": 2}
SECONDS = 60
SUPERVISORS, PLATFORM = ("supervisor 0", "supervisor 1"), ("agent", "service")
OF_LAUNCHERS = ("mpirun", "orted", "rsh agent")
VICTIMS = {
    "Preparing": ("supervisor 0", *PLATFORM),
    "Starting": (*SUPERVISORS, *PLATFORM),
    "Meeting": (*SUPERVISORS, *PLATFORM),
    "Running": ("rank 0", "rank 1", "rank 2", *OF_LAUNCHERS, "pasta", *SUPERVISORS, *PLATFORM),
    "Ending": (*SUPERVISORS, *PLATFORM),
}
CAUSES = {
    "rank 0": r"killed by signal 9.*rank 0 on node gang-0",
    "rank 1": r"killed by signal 9.*rank 1 on node gang-1",
    "rank 2": r"killed by signal 9.*rank 2 on node gang-",
    "mpirun": r"mpirun.*killed by signal 9.* on node gang-0",
    "orted": r"node gang-1 \(.*orted, is gone",
    "rsh agent": r"lost a process by which it starts the MPI daemon.* on node gang-0",
    "supervisor 0": r"supervisor was killed.* on node gang-0",
    "supervisor 1": r"supervisor was killed.* on node gang-1",
}
CI = {
    ("Running", "mpi", "rank 1"),
    ("Running", "mpi", "orted"),
    ("Running", "torch", "supervisor 1"),
    ("Running", "ps", "rank 2"),
    ("Starting", "torch", "supervisor 0"),
    ("Ending", "mpi", "service"),
}
MATRIX = [
    (phase, layout, victim)
    for phase, victims in VICTIMS.items()
    for layout in NODES
    for victim in victims
    if (victim not in OF_LAUNCHERS or layout == "mpi") and (victim != "rank 2" or FULL or layout == "ps")
]
CHOSEN = [
    pytest.param(*case, marks=[pytest.mark.needs("mpi")] if case[1] == "mpi" else [])
    for case in MATRIX
    if FULL or case in CI
]


@pytest.mark.parametrize(("phase", "layout", "victim"), CHOSEN, ids=lambda value: value.replace(" ", "-"))
def test_after_a_kill_a_gang_has_a_true_end(yard: Yard, tmp_path: Path, phase: str, layout: str, victim: str) -> None:
    gang = Gang(yard, layout, NODES[layout], tmp_path)
    with HOLDS[phase](gang, tmp_path):
        gang.kill(victim)
        killed_at = time.monotonic()
        if _is_lost(phase, victim):
            ended(gang.run)
            assert time.monotonic() - killed_at < SECONDS
    yard.restart()
    run = ended(gang.run)
    # mpirun and its daemons end after the ranks, and cannot go on without the supervisors.
    is_of_launcher = layout == "mpi" and victim in SUPERVISORS
    may_be_lost = phase == "Ending" and is_of_launcher and run.get_status() == "Failed"
    if _is_lost(phase, victim) or may_be_lost:
        assert run.get_status() == "Failed"
        assert re.search(CAUSES[victim], message_of(run)), message_of(run)
    else:
        assert run.get_status() == "Completed", message_of(run)
        assert gang.has_finished
    gang.check_nothing_is_left()


def _is_lost(phase: str, victim: str) -> bool:
    """A node that has told the others where it is cannot start over: they may speak with it already."""
    return victim in CAUSES and (phase == "Running" or (phase, victim) == ("Meeting", "supervisor 0"))
