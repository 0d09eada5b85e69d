"""Process tree of a worker: kills all its processes and measures their memory and CPU time, from /proc."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from runyard.node.processes.process_tree import platform_processes
from runyard.node.processes.procfs import ProcessId, descendants, processes_with_variable
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
    while left := processes_with_variable(variable, value, platform_processes(home), home=home):
        _kill(left)
        if time.monotonic() > ends_at:
            return
        time.sleep(_POLL_SECONDS)


def _kill(processes: set[ProcessId]) -> None:
    for process in processes:
        process.send(signal.SIGKILL)


_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_MACHINE_SHARE = 0.9
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def tree_of(pid: int) -> list[int]:
    """Pids of the process and all its descendants."""
    found, waiting = [pid], [pid]
    while waiting:
        children = _children(waiting.pop())
        if children is None:
            return [pid, *(process.pid for process in descendants(pid))]
        found += children
        waiting += children
    return found


def resident_bytes(pids: list[int]) -> int:
    """Resident memory of the processes that still exist. Shared pages count for each."""
    return sum(int(fields[1]) * _PAGE for pid in pids if len(fields := _read(pid, "statm").split()) > 1)


def peak_bytes(pid: int) -> int:
    """Peak memory of the process alone; 0 when it has ended."""
    for line in _read(pid, "status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def cpu_seconds(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        fields = _read(pid, "stat").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12]) if fields else 0
    return total / _TICKS


def machine_limit_bytes() -> int:
    """90 % of the memory of this machine, or of the container that this runs in."""
    limits = [os.sysconf("SC_PHYS_PAGES") * _PAGE]
    for file in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # absent, or "max"
            limits.append(int(Path(file).read_text(encoding="ascii")))
    return int(min(limits) * _MACHINE_SHARE)


def _children(pid: int) -> list[int] | None:
    """None when the kernel has no `children` files."""
    found: list[int] = []
    try:
        threads = os.listdir(_PROC / str(pid) / "task")
    except OSError:
        return []
    for thread in threads:
        file = _PROC / str(pid) / "task" / thread / "children"
        try:
            found += map(int, file.read_text(encoding="ascii").split())
        except FileNotFoundError:
            if (_PROC / "self" / "task").exists() and not (_PROC / f"self/task/{os.getpid()}/children").exists():
                return None
        except OSError:
            continue
    return found


def _read(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
