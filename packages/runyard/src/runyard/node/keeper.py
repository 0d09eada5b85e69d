"""The supervisor's view of the exit keeper, the parent of a part's processes. `keeping.py` is what that does."""

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Collection, Sequence
from functools import partial

from runyard.errors import Json
from runyard.model.plan import ProcessSpec
from runyard.node.attempt import AttemptFolder
from runyard.node.event_loop import EventLoop
from runyard.node.keeping import ENDS, ForkedKeeper, leave_channels, open_files, send_order
from runyard.node.processes import ProcessId, children_of, identify
from runyard.node.starting import Start
from runyard.node.watching import Watcher

UNKNOWN = -1
"""Stands for the wait status of a process that ended while nobody was there to see how."""
PROCESS = "process.json"
"""There from shortly before the first process of a part can start."""


class Keeper:
    """A supervisor's view of the exit keeper. Exit statuses are settled in its event loop as they become known."""

    def __init__(self, folder: AttemptFolder, loop: EventLoop, watcher: Watcher, forked: ForkedKeeper | None) -> None:
        """`forked` waits for its order, if there is one."""
        self._folder, self._loop, self._watcher = folder, loop, watcher
        self._ends = folder.root / ENDS
        self._forked: ForkedKeeper | None = None
        self._process: ProcessId | None = None
        self._numbers: dict[str, int] = {}
        if forked is not None:
            self._take(forked)

    def _take(self, forked: ForkedKeeper) -> None:
        self._forked, self._process = forked, identify(forked.pid)
        self._loop.on_exit(forked.pid, lambda status: self._ended(forked.pid))

    def start(
        self,
        processes: Sequence[tuple[ProcessSpec, Start]],
        facts: Json,
        *,
        kept_out: Collection[int],
        life: Collection[int],
        enter: Callable[[], None] | None,
    ) -> dict[int, ProcessSpec]:
        """Have the processes started, return them by pid. `facts` are kept for a later supervisor. Raises OSError.

        The keeper holds `life` and not `kept_out`; each new process calls `enter`.
        """
        forked, files = self._forked, []
        if forked is None or life or enter is not None or not self.is_alive():
            self.dismiss()
            forked = ForkedKeeper(self._folder, partial(leave_channels, kept_out=kept_out, life=life), enter)
            self._take(forked)
        else:
            files = open_files(kept_out)
        known = None if self._process is None else [self._process.pid, self._process.started]
        self._folder.write(PROCESS, {**facts, "keeper": known})
        self._ends.mkdir(exist_ok=True)
        self._watch()
        with forked.order as order:
            with contextlib.suppress(BrokenPipeError):  # it was killed, and tells nothing
                send_order(order, [start for _, start in processes], files)
            pids = _read_pids(order)
        self._numbers = {start.name: number for (_, start), number in zip(processes, pids, strict=True)}
        self._read_all()
        return dict(zip(pids, (spec for spec, _ in processes), strict=True))

    def dismiss(self) -> None:
        """End a keeper that was given no order."""
        if self._forked is not None:
            self._forked.order.close()

    def kill(self) -> None:
        """End one that may be frozen, and below which no process of the part is left."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)

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
            self._ended(None)
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
        """It is this process's only child, and none of its own runs; False where the kernel does not tell."""
        if self._process is None or children_of(os.getpid()) != {self._process.pid}:
            return False
        below = children_of(self._process.pid)
        # It tells how a process ended before it reaps that.
        return below is not None and all(self._loop.exit_status(pid) is not None for pid in below)

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
        self._ended(None)

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

    def _ended(self, pid: int | None) -> None:
        """The keeper is gone. A process that it has not told of is now a child of this one, or nobody's."""
        if pid is not None and self._process is not None and pid != self._process.pid:
            return  # one before it, which had started nothing
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


def _read_pids(order: socket.socket) -> list[int]:
    """Raises what the keeper met, OSError when it was killed."""
    with order.makefile("rb") as answer_of_keeper:
        line = answer_of_keeper.read()
    if not line:
        raise OSError("the process that was to start it was killed")
    answer: Json = json.loads(line)
    if "error" in answer:
        kind, message = answer["error"]
        raise {"OSError": OSError, "ValueError": ValueError}.get(kind, RuntimeError)(message)
    return list(answer["pids"])
