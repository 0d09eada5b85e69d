"""Process tree of a worker: kills all its processes and measures their memory and CPU time, from /proc."""

import signal
import time
from pathlib import Path

from runyard.node.processes import ProcessId, carrying
from runyard.node.tree import platform_processes
from runyard.serving.workers.variables import SERVICE_VARIABLE, WORKER_VARIABLE

_POLL_SECONDS = 0.02
_MOST_SECONDS = 10.0


def kill_worker_tree(home: Path, worker: str) -> None:
    """Kill all processes that a worker has left, and return when none is left. Blocks: call it in a thread."""
    _kill_until_gone(home, WORKER_VARIABLE, worker)


def kill_service_trees(home: Path, service_id: str) -> None:
    """Kill all processes of a web service's workers that an earlier gateway left, and return when none is left."""
    _kill_until_gone(home, SERVICE_VARIABLE, service_id)


def _kill_until_gone(home: Path, variable: str, value: str) -> None:
    ends_at = time.monotonic() + _MOST_SECONDS
    while left := carrying(variable, value, platform_processes(home), home=home):
        _kill(left)
        if time.monotonic() > ends_at:
            return
        time.sleep(_POLL_SECONDS)


def _kill(processes: set[ProcessId]) -> None:
    for process in processes:
        process.send(signal.SIGKILL)
