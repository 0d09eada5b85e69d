import os
from contextlib import suppress
from pathlib import Path

from runyard.node.processes import descendants

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
