"""SIGSTOP of the service while a script logs: requests wait in its sockets, senders give up and send again."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.yard import Yard, ended, eventually, message_of

pytestmark = pytest.mark.slow

# The node's client waits 30 s for an answer and sends the same bytes once more, so 60 s pass before it sends a longer
# stretch. A request that the stop found half done goes on beside that one.
FULL_SECONDS, SMALL_SECONDS = 63.0, 3.0
FULL_RUNS, SMALL_RUNS = 8, 2

SCRIPT = """
import os, sys, time
from azureml.core import Run

run = Run.get_context()
returned = open(sys.argv[1], "w")
number = 0
while not os.path.exists(sys.argv[2]):
    run.log("point", number)
    returned.write("%d\\n" % number)
    returned.flush()
    os.fsync(returned.fileno())
    number += 1
    time.sleep(0.002)
"""


def test_what_is_logged_while_the_service_is_stopped_is_stored_once(yard: Yard, tmp_path: Path, full: bool) -> None:
    """Several runs, so that the stop finds requests half done: those go on beside the ones sent after them."""
    enough = tmp_path / "enough"
    returned = [tmp_path / f"returned-{number}" for number in range(FULL_RUNS if full else SMALL_RUNS)]
    runs = [yard.submit(SCRIPT, arguments=(file, enough)) for file in returned]
    eventually(lambda: min(map(_count, returned)) > 50, "50 points of each run")
    with _stopped(yard.pid_of("service", runs[0])):
        goes_on_at = time.monotonic() + (FULL_SECONDS if full else SMALL_SECONDS)
        eventually(lambda: time.monotonic() > goes_on_at, "the end of the stop")
    logged = [_count(file) for file in returned]
    eventually(
        lambda: all(_count(file) > before + 50 for file, before in zip(returned, logged, strict=True)),
        "50 more of each",
    )
    enough.touch()
    for run, file in zip(runs, returned, strict=True):
        assert ended(run).get_status() == "Completed", message_of(run)
        assert run.get_metrics()["point"] == [int(line) for line in file.read_text().split()]


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _count(returned: Path) -> int:
    return returned.read_bytes().count(b"\n") if returned.exists() else 0
