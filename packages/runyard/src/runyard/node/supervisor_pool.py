"""Gives further tasks to supervisors that have finished one. A fork costs more CPU than a short run's supervision.

The agent makes a pair of sockets before each fork. A supervisor that has finished says so on its end and waits there.
The agent answers with another task, or closes its end; then the supervisor exits. So idle supervisors end with their
agent. The lock of a task travels in the message: it is held at every moment, also while nobody has read the message.
"""

import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.core.errors import Json
from runyard.node.processes.event_loop import EventLoop, now

_MOST_TASKS = 200
"""Tasks that one process takes at most, so that what it leaks stays small."""
_IDLE_SECONDS, _BEGIN_SECONDS, _FEWEST_IDLE = 30.0, 1.0, 4
_MOST_BYTES = 1 << 16
_FINISHED = b"finished"


@dataclass(frozen=True)
class NextTask:
    """A task for a supervisor. `lock`: the descriptor that holds its lock. `sdk`: the SDK's folder, if it is known."""

    part: str
    lock: int
    sdk: Path | None


def open_channel() -> tuple[socket.socket, socket.socket]:
    """The agent's end and the supervisor's end. Messages keep their bounds."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def carry_out_tasks(first: NextTask, channel: socket.socket, carry_out: Callable[[NextTask], bool]) -> None:
    """Carry out tasks, in a supervisor, until one returns False, they are many, or there is no other."""
    task: NextTask | None = first
    for left in reversed(range(_MOST_TASKS)):
        if task is None or not carry_out(task):
            return
        task = _await_task(channel) if left else None


def _await_task(channel: socket.socket) -> NextTask | None:
    """Tell the agent that the task has ended, and wait for another one. None: there is none, or the agent has ended."""
    try:
        channel.sendall(_FINISHED)
        message, locks, _, _ = socket.recv_fds(channel, _MOST_BYTES, 1)
    except OSError:
        return None
    if not message:
        return None
    os.set_inheritable(locks[0], False)  # a script must not hold it; `recv_fds` ignores MSG_CMSG_CLOEXEC
    body: Json = json.loads(message)
    return NextTask(body["part"], locks[0], Path(body["sdk"]) if body["sdk"] else None)


class SupervisorPool:
    """The supervisors that an agent has forked, with those that wait for another task.

    It keeps about as many waiting as the machine has CPUs, each for half a minute after its last task.
    """

    def __init__(self, loop: EventLoop, on_finished: Callable[[int], None], has_begun: Callable[[int], bool]) -> None:
        """`on_finished` is called with the pid of a supervisor whose task has ended, and which waits for another.
        `has_begun` tells whether a supervisor has begun with the task that it was given."""
        self._loop, self._on_finished, self._has_begun = loop, on_finished, has_begun
        self._channels: dict[int, socket.socket] = {}
        self._idle: dict[int, float] = {}
        """When each becomes superfluous; the one that has waited longest comes first."""
        self._given: dict[int, float] = {}
        """When to look whether each has begun with the task that it was given."""
        self._most_idle = max(_FEWEST_IDLE, os.cpu_count() or 1)

    @property
    def idle(self) -> list[int]:
        """Pids of the supervisors that wait for a task."""
        return list(self._idle)

    def add(self, pid: int, channel: socket.socket) -> None:
        """Keep the agent's end of a new supervisor's channel."""
        self._channels[pid] = channel
        self._loop.on_readable(channel, lambda: self._read(pid))

    def remove(self, pid: int) -> None:
        """Forget a supervisor. If it lives, it exits after its task. Safe to repeat."""
        self._idle.pop(pid, None)
        self._given.pop(pid, None)
        channel = self._channels.pop(pid, None)
        if channel is not None:
            self._loop.forget(channel)
            channel.close()

    def hand_over(self, task: NextTask) -> int | None:
        """Give the task to a supervisor that waits and return its pid; None if there is none. The caller closes its
        own descriptor of the lock. A supervisor that dies before it has read the task is the caller's to notice."""
        message = json.dumps({"part": task.part, "sdk": str(task.sdk or "")}).encode()
        while self._idle:
            pid, _ = self._idle.popitem()  # the last: the others may become superfluous
            if _is_stopped(pid):
                os.kill(pid, signal.SIGKILL)  # it would take the task, and not act on it
            else:
                with suppress(OSError):  # it was killed
                    socket.send_fds(self._channels[pid], [message], [task.lock])
                    self._given[pid] = now() + _BEGIN_SECONDS
                    return pid
            self.remove(pid)
        return None

    def next_times(self) -> list[float]:
        return [*list(self._idle.values())[:1], *list(self._given.values())[:1]]

    def check(self) -> None:
        """Let supervisors exit that have waited for long. Kill those that were stopped (SIGSTOP) just before they were
        given a task: nobody else knows that the task is theirs."""
        for pid in [pid for pid, until in self._idle.items() if until <= now()]:
            self.remove(pid)
        for pid in [pid for pid, at in self._given.items() if at <= now()]:
            del self._given[pid]
            if not self._has_begun(pid):
                self._given[pid] = now() + _BEGIN_SECONDS
                if _is_stopped(pid):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Close, in a forked child, what belongs to the agent."""
        for channel in self._channels.values():
            channel.close()

    def _read(self, pid: int) -> None:
        try:
            message = self._channels[pid].recv(_MOST_BYTES)
        except OSError:
            message = b""
        if message != _FINISHED:  # it has ended: the agent learns that by its exit
            self.remove(pid)
            return
        self._given.pop(pid, None)
        self._idle[pid] = now() + _IDLE_SECONDS
        if len(self._idle) > self._most_idle:
            self.remove(next(iter(self._idle)))
        self._on_finished(pid)


def _is_stopped(pid: int) -> bool:
    """Tell whether a child is stopped (SIGSTOP)."""
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False
