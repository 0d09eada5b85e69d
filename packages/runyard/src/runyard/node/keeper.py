"""The exit keeper: the parent of a part's processes, which outlives the supervisor and keeps how they ended.

It is a fork of the supervisor, so it costs no start of an interpreter. `ends/RANK` of the attempt's folder has the
wait status of a process from its end on; `ends/.RANK` is the room for it, held on the disk since before its start. The
keeper collects orphans of the script and ends with the last process below it.
"""

import contextlib
import gc
import json
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from runyard.errors import Json
from runyard.model.plan import ProcessSpec
from runyard.node.attempt import AttemptFolder
from runyard.node.event_loop import EventLoop
from runyard.node.processes import ProcessId, adopt_orphans, children_of, identify
from runyard.node.watching import Watcher

UNKNOWN = -1
"""Stands for the wait status of a process that ended while nobody was there to see how."""
PROCESS = "process.json"
"""There from shortly before the first process of a part can start."""
_ENDS = "ends"
_ROOM_BYTES = 256
_RETRY_SECONDS = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Keeper:
    """A supervisor's view of the exit keeper. Exit statuses are settled in its event loop as they become known."""

    def __init__(self, folder: AttemptFolder, loop: EventLoop, watcher: Watcher) -> None:
        self._folder, self._loop, self._watcher = folder, loop, watcher
        self._ends = folder.root / _ENDS
        self._process: ProcessId | None = None
        self._numbers: dict[str, int] = {}

    def start(
        self,
        processes: Sequence[tuple[ProcessSpec, Callable[[], int]]],
        facts: Json,
        *,
        kept_out: Collection[int],
        life: Collection[int],
    ) -> dict[int, ProcessSpec]:
        """Fork the keeper and have it start the processes, each by a call that gives its pid; returns them by pid.
        Raises OSError.

        `facts` are kept for a later supervisor. The keeper closes `kept_out` and holds `life`.
        """
        told, tell = os.pipe2(os.O_CLOEXEC)
        go, say_go = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _be_keeper(self._folder, {str(spec.rank): start for spec, start in processes}, go, tell, kept_out, life)
        os.close(go)
        os.close(tell)
        try:
            self._process = identify(pid)
            started = 0 if self._process is None else self._process.started
            self._folder.write(PROCESS, {**facts, "keeper": [pid, started]})
            self._ends.mkdir(exist_ok=True)
            self._watch()
            os.write(say_go, b"1")
        except BrokenPipeError:
            pass  # it was killed, and tells nothing
        finally:
            os.close(say_go)
        pids = _read_pids(told)
        self._numbers = {str(spec.rank): number for (spec, _), number in zip(processes, pids, strict=True)}
        self._loop.on_exit(pid, lambda status: self._ended())
        self._read_all()
        return dict(zip(pids, (spec for spec, _ in processes), strict=True))

    def find(self, started: Json) -> bool:
        """Whether an earlier supervisor's keeper lives, or has known how a process ended."""
        pid, began = started.get("keeper") or (0, 0)
        self._process = ProcessId(pid, began) if pid else None
        return self.is_alive() or self.may_have_started()

    def follow(self, specs: Sequence[ProcessSpec]) -> dict[int, ProcessSpec]:
        """The processes of a keeper that was found, by numbers that stand for them."""
        self._numbers = {str(spec.rank): self._loop.number() for spec in specs}
        self._ends.mkdir(exist_ok=True)
        self._watch()
        pidfd = self._open()
        if pidfd is None:
            self._ended()
        else:
            self._loop.on_readable(pidfd, lambda: self._forget(pidfd))
        self._read_all()
        return dict(zip(self._numbers.values(), specs, strict=True))

    def statuses(self, specs: Sequence[ProcessSpec]) -> list[int | None]:
        """What is known by now of how each of them ended."""
        return [self._status(str(spec.rank)) for spec in specs]

    def may_have_started(self) -> bool:
        return (self._ends.is_dir() and any(self._ends.iterdir())) or bool(self._ended_inside())

    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pids(self) -> set[int]:
        return {self._process.pid} if self._process is not None and self.is_alive() else set()

    def is_alone(self) -> bool:
        """It is this process's only child and has none itself; False where the kernel does not tell."""
        pid = None if self._process is None else self._process.pid
        return pid is not None and children_of(os.getpid()) == {pid} and children_of(pid) == set()

    def _watch(self) -> None:
        self._watcher.watch_arrivals(self._ends, lambda path, _: self._read(path.name))

    def _open(self) -> int | None:
        try:
            pidfd = os.pidfd_open(self._process.pid) if self._process is not None else None
        except OSError:
            return None
        if pidfd is not None and not self.is_alive():
            os.close(pidfd)
            return None
        return pidfd

    def _forget(self, pidfd: int) -> None:
        self._loop.forget(pidfd)
        os.close(pidfd)
        self._ended()

    def _read_all(self) -> None:
        for name in self._numbers:
            self._read(name)

    def _read(self, name: str) -> None:
        number, status = self._numbers.get(name), self._status(name)
        if number is not None and status is not None and self._loop.exit_status(number) is None:
            self._loop.settle(number, status)

    def _status(self, name: str) -> int | None:
        try:
            return int(json.loads((self._ends / name).read_bytes())["status"])
        except (OSError, ValueError, KeyError, TypeError):
            return self._ended_inside().get(name)

    def _ended_inside(self) -> dict[str, int]:
        """What the starters of the part's containers have kept: wait statuses by name of the process."""
        found: dict[str, int] = {}
        for file in self._folder.root.glob("containers/*/news.ended"):
            with contextlib.suppress(OSError, ValueError):
                lines = file.read_text(encoding="utf-8").splitlines()
                found |= {name: int(status) for name, status in (line.split(" ") for line in lines)}
        return found

    def _ended(self) -> None:
        """The keeper is gone. A process that it has not told of is now a child of this one, or nobody's."""
        self._read_all()
        self._loop.has_children()
        for number in self._numbers.values():
            if self._loop.exit_status(number) is None and not _is_child(number):
                self._loop.settle(number, UNKNOWN)


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OSError):
        return False
    return True


def _read_pids(told: int) -> list[int]:
    """Raises what the keeper met, OSError when it was killed."""
    with os.fdopen(told, "rb") as pipe:
        line = pipe.read()
    if not line:
        raise OSError("the process that was to start it was killed")
    answer: Json = json.loads(line)
    if "error" in answer:
        kind, message = answer["error"]
        raise {"OSError": OSError, "ValueError": ValueError}.get(kind, RuntimeError)(message)
    return list(answer["pids"])


def _be_keeper(
    folder: AttemptFolder,
    processes: Mapping[str, Callable[[], int]],
    go: int,
    tell: int,
    kept_out: Collection[int],
    life: Collection[int],
) -> None:
    try:
        gc.disable()  # objects of the supervisor must not close descriptors that have other uses here
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)  # SIG_IGN would be inherited by the script
        os.setsid()
        adopt_orphans()
        _close_all_but({go, tell, *life}, kept_out)
        if os.read(go, 1):
            os.close(go)
            _keep(folder.root / _ENDS, folder, processes, tell)
    finally:
        os._exit(0)


def _close_all_but(kept: set[int], kept_out: Collection[int]) -> None:
    """Files and namespaces stay open: the script's environment, ports and network are held by them."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            is_channel = os.readlink(f"/proc/self/fd/{name}").startswith(("socket:", "pipe:", "anon_inode:"))
            if descriptor > 2 and descriptor not in kept and (is_channel or descriptor in kept_out):
                os.close(descriptor)
        except OSError:
            continue  # the one of the listing itself


def _keep(ends: Path, folder: AttemptFolder, processes: Mapping[str, Callable[[], int]], tell: int) -> None:
    running: dict[int, str] = {}
    try:
        rooms = {name: _make_room(ends / f".{name}") for name in processes}
        for name, start in processes.items():
            running[start()] = name
        answer: Json = {"pids": list(running)}
    except OSError as e:
        answer = {"error": ["OSError", str(e)]}
    except Exception as e:  # raised again by the supervisor
        answer = {"error": [type(e).__name__, str(e)]}
    with contextlib.suppress(BrokenPipeError), os.fdopen(tell, "wb", buffering=0) as pipe:
        pipe.write(json.dumps(answer).encode())  # a supervisor that was killed meanwhile hears nothing
    while True:
        try:
            # Not reaped before its status is kept: else a kill in between would lose it for the supervisor too.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return
        assert found is not None
        if found.si_pid in running:
            name = running.pop(found.si_pid)
            _put(folder, ends / name, rooms[name], _wait_status(found))
        os.waitpid(found.si_pid, 0)


def _make_room(file: Path) -> int:
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    os.posix_fallocate(descriptor, 0, _ROOM_BYTES)
    return descriptor


def _put(folder: AttemptFolder, file: Path, room: int, status: int) -> None:
    """Visible at once, and then made to outlive a power cut."""
    body = json.dumps({"status": status, "at": time.time()}).ljust(_ROOM_BYTES).encode()
    while file.parent.exists():
        try:
            os.pwrite(room, body, 0)
            os.rename(file.with_name(f".{file.name}"), file)
            os.fsync(room)
            return
        except OSError:  # a disk so full that not even a name can be changed
            folder.free_reserve()
            time.sleep(_RETRY_SECONDS)


def _wait_status(found: os.waitid_result) -> int:
    if found.si_code == os.CLD_EXITED:
        return found.si_status << 8
    return found.si_status | (0x80 if found.si_code == os.CLD_DUMPED else 0)
