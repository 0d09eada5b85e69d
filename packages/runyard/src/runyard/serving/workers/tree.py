"""Ending every process that a worker has started, wherever it hangs."""

import signal
import time
from pathlib import Path

from runyard.node.processes import ProcessId, carrying
from runyard.node.tree import platform_processes
from runyard.serving.workers.variables import SERVICE_VARIABLE, WORKER_VARIABLE

_LOOK_AGAIN_SECONDS = 0.02
_MOST_SECONDS = 10.0


def kill_worker_tree(home: Path, worker: str) -> None:
    """Kill what a worker has started and left behind, and return when none is left. For a thread: it waits."""
    _kill_until_gone(home, WORKER_VARIABLE, worker)


def kill_service_trees(home: Path, service_id: str) -> None:
    """Kill whatever an earlier gateway left of a web service's workers, and return when none is left."""
    _kill_until_gone(home, SERVICE_VARIABLE, service_id)


def _kill_until_gone(home: Path, variable: str, value: str) -> None:
    ends_at = time.monotonic() + _MOST_SECONDS
    while left := carrying(variable, value, platform_processes(home), home=home):
        _kill(left)
        if time.monotonic() > ends_at:
            return
        time.sleep(_LOOK_AGAIN_SECONDS)


def _kill(processes: set[ProcessId]) -> None:
    for process in processes:
        process.send(signal.SIGKILL)
