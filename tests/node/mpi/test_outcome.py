"""Whom mpirun blames, in words that mpirun 4.1.4 has really printed."""

from pathlib import Path

import pytest

from runyard.node.mpi.failure import MpiFailure, parse_mpirun_failure
from tests.node.mpi.job import mpi_plan

SAID = Path(__file__).parent / "said"
PLAN = mpi_plan(["127.0.3.2", "127.0.3.3"], 2)
NO_ORTED = (
    "Node cpu-1 (127.0.3.3) did not start its part of the run: Node cpu-1 (127.0.3.3) has no orted of Open MPI, "
    "neither in the run's environment nor on PATH. Install it."
)
NO_STARTER = "mpirun lost a process by which it starts the MPI daemon, orted, of a node."


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("exit_code", MpiFailure(rank=2, node=1, exit_code=3)),
        ("segfault", MpiFailure(rank=2, node=1, signal=11)),
        ("killed_rank", MpiFailure(rank=1, node=0, signal=9)),
        ("mpi_abort", MpiFailure(rank=2, node=1, exit_code=7, aborted=True)),
        (
            "no_interpreter",
            MpiFailure(2, 1, exit_code=127, words="/nonexistent/python cannot be run on node cpu-1 (127.0.3.3)."),
        ),
        (
            "daemon_lost",
            MpiFailure(
                node=1, words="The connection to node cpu-1 (127.0.3.3) was lost: its MPI daemon, orted, is gone."
            ),
        ),
        ("no_orted", MpiFailure(node=1, words=NO_ORTED)),
        ("killed_rsh_agent", MpiFailure(words=NO_STARTER)),
    ],
)
def test_the_launchers_words_name_who_ended_the_job(file, expected):
    assert parse_mpirun_failure((SAID / f"{file}.txt").read_text(encoding="utf-8"), PLAN) == expected


def test_words_that_name_nobody_blame_nobody():
    assert parse_mpirun_failure("mpirun: Forwarding signal 15 to job\n", PLAN) is None


def test_an_abort_of_a_smaller_group_names_no_rank():
    said = "MPI_ABORT was invoked on rank 1 in communicator MPI\nwith errorcode 9.\n"
    assert parse_mpirun_failure(said, PLAN) == MpiFailure(
        exit_code=9, aborted=True, words="A rank called MPI_Abort with error code 9."
    )


def test_ranks_that_mpirun_ends_are_not_to_blame():
    ended = "mpirun noticed that process rank 0 with PID 7 on node here exited on signal 15 (Terminated).\n"
    assert parse_mpirun_failure(ended, PLAN) == MpiFailure(rank=0, node=0, signal=15)
    lost = parse_mpirun_failure(f"{ended}ORTE was unable to reliably start one or more daemons.\n", PLAN)
    assert lost is not None
    assert (lost.rank, lost.signal) == (None, None)
    assert "lost a process" in lost.words


def test_a_rank_and_a_node_that_the_plan_does_not_know_stay_without_a_node():
    said = "mpirun noticed that process rank 9 with PID 1 on node elsewhere exited on signal 6 (Aborted)."
    assert parse_mpirun_failure(said, PLAN) == MpiFailure(rank=9, signal=6)
