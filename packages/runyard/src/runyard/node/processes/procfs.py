import ctypes
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_OOM_KILL = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class ProcessId:
    """A process, identified by pid and start time: a pid alone is reused."""

    pid: int
    started: int
    """Clock ticks after boot."""

    @classmethod
    def parse(cls, text: str) -> "ProcessId":
        """The process that `format` wrote. Raises ValueError."""
        pid, _, started = text.partition(":")
        return cls(int(pid), int(started))

    def format(self) -> str:
        """PID:STARTED, for arguments and files."""
        return f"{self.pid}:{self.started}"

    def began(self) -> float:
        """Start time in seconds of `time.time`, to a hundredth of a second."""
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + self.started / os.sysconf("SC_CLK_TCK")

    def is_alive(self) -> bool:
        """Tell whether it runs. False for a zombie."""
        found = _stat(self.pid)
        return found is not None and found.started == self.started and found.state not in "ZX"

    def is_frozen(self) -> bool:
        """Tell whether it is stopped (SIGSTOP, or a debugger)."""
        found = _stat(self.pid)
        return found is not None and found.started == self.started and found.state in "Tt"

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Does nothing when the process is gone."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if self.is_alive():
                signal.pidfd_send_signal(pidfd, number)
        except (ProcessLookupError, PermissionError):
            return
        finally:
            os.close(pidfd)


@dataclass(frozen=True)
class _Stat:
    pid: int
    state: str
    parent: int
    started: int


def identify(pid: int) -> ProcessId | None:
    """Return the process with that pid, None when there is none."""
    found = _stat(pid)
    return None if found is None else ProcessId(pid, found.started)


def adopt_orphans() -> None:
    """Make this process a child subreaper: orphaned descendants become its children."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this forked child when `parent`, which forked it, ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def descendants(root: int, spared: Iterable[int] = ()) -> set[ProcessId]:
    """Living descendants of `root`, without the spared ones and their descendants."""
    children: dict[int, list[_Stat]] = {}
    for found in _all_processes():
        children.setdefault(found.parent, []).append(found)
    result, waiting, left_out = set(), [root], set(spared)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.pid in left_out:
                continue
            waiting.append(child.pid)
            if child.state not in "ZX":
                result.add(ProcessId(child.pid, child.started))
    return result


def children(pid: int) -> set[ProcessId]:
    """Children of a process, zombies included."""
    return {ProcessId(found.pid, found.started) for found in _all_processes() if found.parent == pid}


def session_descendants(root: int, leaders: set[ProcessId]) -> set[ProcessId]:
    """Living descendants of `root` in the sessions of these leaders, which may have ended."""
    numbers = {leader.pid for leader in leaders if identify(leader.pid) in (None, leader)}
    return {process for process in descendants(root) if _session_of(process.pid) in numbers}


def is_session_leader(pid: int) -> bool:
    """Tell whether the process, which may be a zombie, leads a session."""
    return _session_of(pid) == pid


def processes_with_variable(
    variable: str, value: str, spared: Iterable[int] = (), *, home: Path | None = None
) -> set[ProcessId]:
    """Living processes that were started with this environment variable, wherever they are in the process tree.

    With `home`, processes of other home folders are left out: run ids are unique in one home only.
    """
    wanted, left_out, result = f"{variable}={value}".encode(), {os.getpid(), *spared}, set()
    for found in _all_processes():
        if found.pid in left_out or found.state in "ZX":
            continue
        try:
            environment = (_PROC / str(found.pid) / "environ").read_bytes()
        except OSError:
            continue
        variables = environment.split(b"\0")
        if wanted in variables and (home is None or not _is_of_other_home(home, variables)):
            result.add(ProcessId(found.pid, found.started))
    return result


def _is_of_other_home(home: Path, variables: list[bytes]) -> bool:
    homes = [variable for variable in variables if variable.startswith(b"RUNYARD_HOME=")]
    return bool(homes) and os.fsencode(f"RUNYARD_HOME={home}") not in homes


def raise_oom_score(pid: int) -> None:
    """Raise the OOM score of a process: out of memory, the kernel should kill the script, not its supervisor."""
    try:
        (_PROC / str(pid) / "oom_score_adj").write_text("500")
    except OSError:
        return


def count_oom_kills() -> int:
    """Number of OOM kills on this machine and in this cgroup, added up. Only its growth means something."""
    return sum(map(_counter, _counter_files()))


def cache_oom_counters() -> None:
    """Find the files that count OOM kills, once: forked children are in the same cgroup and inherit the result."""
    _counter_files()


@cache
def _counter_files() -> tuple[str, ...]:
    files = ["/proc/vmstat"]
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            files.append(os.path.join("/sys/fs/cgroup", path.lstrip("/"), "memory.events"))
        elif "memory" in controllers.split(","):
            files.append(os.path.join("/sys/fs/cgroup/memory", path.lstrip("/"), "memory.oom_control"))
    return tuple(file for file in files if os.path.exists(file))


def _counter(file: str) -> int:
    found = _OOM_KILL.search(_text(file))
    return int(found[1]) if found else 0


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except OSError:
        return ""


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _all_processes() -> Iterator[_Stat]:
    for name in os.listdir(_PROC):
        found = _stat(int(name)) if name.isdigit() else None
        if found is not None:
            yield found


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses itself.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(pid, fields[0], int(fields[1]), int(fields[19]))
