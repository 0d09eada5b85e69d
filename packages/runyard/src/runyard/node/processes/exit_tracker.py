"""Starts the processes of a task and tracks how they end, also for a supervisor that replaces a killed one."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from runyard.core.errors import Json
from runyard.core.records.launch_plan import ProcessSpec
from runyard.node.processes.event_loop import EventLoop
from runyard.node.processes.exit_status import (
    ENDS,
    ended_processes,
    read_status,
    read_unregistered_statuses,
    register_process,
    registered_file,
    reserve_status_file,
    running_processes,
    started_marker,
    write_status,
)
from runyard.node.processes.procfs import (
    ProcessId,
    children,
    identify,
    is_session_leader,
    processes_with_variable,
    session_descendants,
)
from runyard.node.processes.spawn import SpawnSpec, spawn
from runyard.node.task_folder import TASK_VARIABLE, TaskFolder

UNKNOWN_STATUS = -1
"""In place of the wait status of a process that nobody reaped for us."""
PROCESS_FILE = "process.json"
"""Written just before the first process of a task starts."""
_POLL_SECONDS, _KEEPER_SECONDS = 0.02, 1.0


class ExitTracker:
    """Processes of a task. Their wait statuses are set in the event loop as they become known."""

    def __init__(self, folder: TaskFolder, loop: EventLoop, keeper: ProcessId | None) -> None:
        """`keeper`: the exit keeper, which adopts the processes when this one is killed."""
        self._folder, self._loop = folder, loop
        self._own_keeper = self._keeper = keeper
        self._ends = folder.root / ENDS
        self._numbers: dict[str, int] = {}
        self._followed: dict[str, ProcessId] = {}
        self._leaders: set[ProcessId] = set()

    def start(
        self, processes: Sequence[tuple[ProcessSpec, SpawnSpec]], facts: Json, enter: Callable[[], None] | None
    ) -> dict[int, ProcessSpec]:
        """Start the processes and return them by pid. Raises OSError.

        `facts` are written for a later supervisor. Each new process calls `enter` before it executes its program.
        """
        self._ends.mkdir(exist_ok=True)
        for _, one in processes:
            reserve_status_file(self._ends, one.name)
        self._keeper = self._own_keeper  # not that of an earlier supervisor which started nothing
        keeper = None if self._keeper is None else [self._keeper.pid, self._keeper.started]
        self._folder.write(PROCESS_FILE, {**facts, "keeper": keeper})
        return {self._start(one, enter): spec for spec, one in processes}

    def _start(self, one: SpawnSpec, enter: Callable[[], None] | None) -> int:
        pid = spawn(replace(one, marker=str(started_marker(self._ends, one.name))), enter)
        process = identify(pid)
        assert process is not None  # only the event loop reaps it
        room = register_process(self._ends, one.name, process)
        self._loop.before_reaping(pid, partial(write_status, room))
        return pid

    def find(self, started: Json, processes: Sequence[ProcessSpec]) -> None:
        """Find the processes that an earlier supervisor started, from the facts that it wrote."""
        pid, began = started.get("keeper") or (0, 0)
        self._keeper = ProcessId(pid, began) if pid else None
        self._followed = running_processes(self._ends)
        if len(processes) == 1:
            self._find_unregistered(str(processes[0].rank))
        for name, process in self._followed.items():
            self._use_unregistered_status(name, process)
        self._leaders = {*self._followed.values(), *ended_processes(self._ends)}

    def follow(self, specs: Sequence[ProcessSpec]) -> dict[int, ProcessSpec]:
        """Watch the processes that `find` found. Returned by event loop numbers, which stand for pids."""
        self._numbers = {str(spec.rank): self._loop.number() for spec in specs}
        for name in self._followed.keys() & self._numbers.keys():
            settle = partial(self._settle_ended, name, self._followed[name])
            if not self._watch(self._followed[name], settle):
                settle()
        if not self.has_keeper() or not self._watch(self._keeper, self._keeper_ended):
            self._keeper_ended()
        self._read_all()
        return dict(zip(self._numbers.values(), specs, strict=True))

    def statuses(self, specs: Sequence[ProcessSpec]) -> list[int | None]:
        """Wait status of each, None where it is not known yet."""
        return [self._status(str(spec.rank)) for spec in specs]

    def may_have_started(self, processes: Sequence[ProcessSpec]) -> bool:
        """Tell whether any process was started. Exact while this process holds the task's lock: a forked child that
        has not executed its program yet would hold it too."""
        names = [str(spec.rank) for spec in processes]
        return any(started_marker(self._ends, name).exists() for name in names) or bool(self._statuses_in_containers())

    def will_be_known(self, processes: Sequence[ProcessSpec]) -> bool:
        """Tell whether the wait status of each is known, or will be."""
        is_kept = self.has_keeper()
        names = [str(spec.rank) for spec in processes]
        return all(self._status(name) is not None or (is_kept and self._exists(name)) for name in names)

    def has_keeper(self) -> bool:
        return self._keeper is not None and self._keeper.is_alive()

    @property
    def followed(self) -> set[ProcessId]:
        """Living processes of the task that do not descend from this one. Orphans of a script descend from the exit
        keeper, and are known by the script's session."""
        living = {process for process in self._followed.values() if process.is_alive()}
        if self._keeper is None or not self._leaders or not self.has_keeper():
            return living
        return living | session_descendants(self._keeper.pid, self._leaders)

    def _find_unregistered(self, name: str) -> None:
        """Register a process whose supervisor was killed between its start and its registration."""
        made = started_marker(self._ends, name)
        if name in self._followed or not made.exists() or self._status(name) is not None:
            return
        process = find_unregistered(self._folder, self._keeper, self._folder.root / PROCESS_FILE, made)
        if process is None:
            return
        with contextlib.suppress(OSError):
            register_process(self._ends, name, process)
            self._followed[name] = process

    def _use_unregistered_status(self, name: str, process: ProcessId) -> None:
        """Use the status that the exit keeper wrote for a process that ended before it was registered."""
        until = time.monotonic() + _KEEPER_SECONDS
        is_reaped = False
        while not process.is_alive() and self._status(name) is None and not is_reaped and time.monotonic() < until:
            is_reaped = identify(process.pid) != process  # tested first: the keeper writes before it reaps
            left = read_unregistered_statuses(self._ends).get(process)
            if left is not None:
                with contextlib.suppress(OSError):
                    write_status(registered_file(self._ends, process), left)
            elif not is_reaped:
                time.sleep(_POLL_SECONDS)

    def _exists(self, name: str) -> bool:
        process = self._followed.get(name)
        return process is not None and identify(process.pid) == process

    def _watch(self, process: ProcessId | None, on_end: Callable[[], bool]) -> bool:
        """Call `on_end` after the process has ended, until it returns True. Return False if the process is gone."""
        if process is None:
            return False
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            return False
        if identify(process.pid) != process:
            os.close(pidfd)
            return False
        self._loop.on_readable(pidfd, lambda: self._forget(pidfd) if on_end() else None)
        return True

    def _forget(self, pidfd: int) -> None:
        self._loop.forget(pidfd)
        os.close(pidfd)

    def _settle_ended(self, name: str, process: ProcessId) -> bool:
        """Set the status of an ended process, or UNKNOWN. Return False while the exit keeper is to write it."""
        is_reaped = identify(process.pid) != process  # tested first: the status is written before it is reaped
        self._read(name)
        number = self._numbers[name]
        if self._loop.exit_status(number) is None and is_reaped:
            self._loop.settle(number, UNKNOWN_STATUS)
        if self._loop.exit_status(number) is None:
            time.sleep(_POLL_SECONDS)  # the keeper is about to write it, or is stopped (SIGSTOP)
            return False
        return True

    def _keeper_ended(self) -> bool:
        """Set the processes that have not ended to UNKNOWN: without a keeper, nobody reaps them."""
        self._read_all()
        for number in self._numbers.values():
            if self._loop.exit_status(number) is None:
                self._loop.settle(number, UNKNOWN_STATUS)
        return True

    def _read_all(self) -> None:
        for name in self._numbers:
            self._read(name)

    def _read(self, name: str) -> None:
        number, status = self._numbers.get(name), self._status(name)
        if number is not None and status is not None and self._loop.exit_status(number) is None:
            self._loop.settle(number, status)

    def _status(self, name: str) -> int | None:
        known = read_status(self._ends, name)
        return self._statuses_in_containers().get(name) if known is None else known

    def _statuses_in_containers(self) -> dict[str, int]:
        """Wait statuses that the starters of the task's containers wrote, by name of the process."""
        found: dict[str, int] = {}
        for file in self._folder.root.glob("containers/*/news.ended"):
            with contextlib.suppress(OSError, ValueError):
                lines = file.read_text(encoding="utf-8").splitlines()
                found |= {name: int(status) for name, status in (line.split(" ") for line in lines)}
        return found


_CLOCK_SECONDS = 0.011
"""How far the times of files and of processes may differ: one tick of the kernel."""


def find_unregistered(folder: TaskFolder, keeper: ProcessId | None, written: Path, marker: Path) -> ProcessId | None:
    """Find the only process of a task whose supervisor was killed before it registered it. The process may have ended.

    While it runs, the task's environment variable identifies it. Otherwise it is the only child of the exit keeper that
    was started between `written`, the supervisor's last file before the start, and `marker`, the process's own first
    file. None where that is not certain.
    """
    tagged = processes_with_variable(TASK_VARIABLE, folder.part, home=folder.home)
    leaders = [process for process in tagged if is_session_leader(process.pid)]
    if leaders:
        return min(leaders, key=lambda one: (one.started, one.pid))
    # In this order: the keeper writes a status before it reaps, and exits last of all.
    below = children(keeper.pid) if keeper is not None and keeper.is_alive() else set()
    first, last = written.stat().st_mtime - _CLOCK_SECONDS, marker.stat().st_mtime + _CLOCK_SECONDS
    kept = {process for process in below if is_session_leader(process.pid)} | read_unregistered_statuses(
        marker.parent
    ).keys()
    of_others = {
        process for ends in folder.root.parent.glob(f"*/{ENDS}") for process in running_processes(ends).values()
    }
    found = [process for process in kept - of_others if first <= process.began() <= last]
    return found[0] if len(found) == 1 else None
