"""The warm agent: one small process per home folder that starts a supervisor for each node task.

It forks one, or gives the task to one that has finished another (`supervisor_pool.py`). It has one thread and no event
framework, because it forks. What a supervisor needs is imported here, before the fork, so that no supervisor has to.
The exit keeper starts the agent (`exit_keeper.py`). An agent with a guard process kills all its tasks when that process
ends.
"""

import contextlib
import encodings.idna  # noqa: F401  every connection needs it: imported before the fork
import fcntl
import gc
import json
import logging
import os
import signal
import socket
import sys
from pathlib import Path

from runyard.client import ConnectionPool
from runyard.core.disk import write_all
from runyard.core.durable_files import replacement
from runyard.core.errors import Json, RunyardError
from runyard.core.plan_json import prepare_plan_reader
from runyard.core.records.runs import AttemptId, run_of
from runyard.core.umask import keep_files_private, users_umask
from runyard.node.containers.markers import ContainerSweeper
from runyard.node.data.mount_points import unmount_leftovers
from runyard.node.guard import kill_all_tasks, open_guard
from runyard.node.home_socket import (
    AGENT_LOCK,
    AGENT_LOG,
    AGENT_SOCKET,
    ANOTHER_AGENT,
    OTHER_HOME,
    is_for_home,
    read_line,
    socket_address,
)
from runyard.node.network.private_network import why_no_private_network
from runyard.node.processes.event_loop import EventLoop, now
from runyard.node.processes.inherited_settings import inherited_settings
from runyard.node.processes.procfs import ProcessId, cache_oom_counters
from runyard.node.sdk_folder import Bytecode, ensure_sdk_folder
from runyard.node.service_client import TaskConnections
from runyard.node.stop_enforcer import StopEnforcer
from runyard.node.supervisor.task_supervisor import supervise
from runyard.node.supervisor_pool import NextTask, SupervisorPool, carry_out_tasks, open_channel
from runyard.node.task_folder import TaskFolder, list_task_folders
from runyard.node.version import node_version
from runyard.process_logs import configure_logging, label_lines

_IDLE_SECONDS, _IDLE_WITHOUT_SERVICE_SECONDS, _POLL_SECONDS = 30 * 60, 60, 30
_MOST_RESTARTS = 5
_LOCK_RETRY_SECONDS = 0.05
log = logging.getLogger("runyard.node.agent")


def main(home: Path, ready_fd: int | None, guard: ProcessId | None = None, keeper: ProcessId | None = None) -> int:
    """Serve until idle for half an hour. Return ANOTHER_AGENT at once when the home already has an agent.

    When the process `guard` ends, the agent kills all its tasks and exits. `keeper` is the exit keeper.
    """
    keep_files_private()
    lock = os.open(home / AGENT_LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ANOTHER_AGENT
    configure_logging("agent", home)
    agent = Agent(home, lock, guard, keeper)
    prepare_plan_reader()
    cache_oom_counters()
    # The collector would write to these objects, and copy-on-write would give each supervisor its own pages of them.
    gc.collect()
    gc.freeze()
    if not agent.watch_guard():
        return 0
    agent.listen()
    log.info("The agent %s starts supervisors for %s.", node_version(), home)
    if ready_fd is not None:
        with contextlib.suppress(BrokenPipeError):  # whoever started the agent was killed
            os.write(ready_fd, b"1")
        os.close(ready_fd)
    why_no_private_network()  # asks the kernel once, for all supervisors
    agent.adopt_tasks()
    agent.serve()
    return 0


class Agent:
    def __init__(self, home: Path, lock: int, guard: ProcessId | None, keeper: ProcessId | None) -> None:
        self._home, self._lock, self._guard, self._version = home, lock, guard, node_version()
        self._keeper = keeper
        self._loop, self._stop_enforcer = EventLoop(), StopEnforcer()
        self._container_sweeper = ContainerSweeper(home, self._close_own_descriptors)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._children: dict[int, str] = {}
        """Task of each supervisor that this agent forked and that has one."""
        self._pool = SupervisorPool(self._loop, self._finished, self._has_begun)
        self._adopted: dict[int, str] = {}
        self._restarts: dict[str, int] = {}
        self._restart_at: dict[str, float] = {}
        self._last_busy = now()
        self._is_leaving = False
        self._sdk: Path | None = None

    def watch_guard(self) -> bool:
        """Watch the guard process. Return False, with all tasks killed, when it has already ended."""
        if self._guard is None:
            return True
        descriptor = open_guard(self._guard)
        if descriptor is None:
            kill_all_tasks(self._home)
            return False
        self._loop.on_readable(descriptor, self._guard_ended)
        return True

    def _guard_ended(self) -> None:
        kill_all_tasks(self._home)
        self._children.clear()
        self._is_leaving = True

    def listen(self) -> None:
        """Open the socket; requests are answered once `serve` is called."""
        (self._home / AGENT_SOCKET).unlink(missing_ok=True)
        with socket_address(self._home, AGENT_SOCKET) as path:
            self._listener.bind(path)
        os.chmod(self._home / AGENT_SOCKET, 0o600)
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._loop.on_readable(self._listener, self._accept)
        self._loop.on_readable(self._stop_enforcer, self._stop_enforcer.read_events)
        keeper = None if self._keeper is None else self._keeper.pid
        facts = {"pid": os.getpid(), "keeper": keeper, "version": self._version}
        with replacement(self._home / "agent.json") as fd:
            write_all(fd, json.dumps(facts).encode())

    def adopt_tasks(self) -> None:
        """Start a supervisor for each task that an earlier agent left, and unmount what ended tasks left."""
        unmount_leftovers(self._home)
        for folder in list_task_folders(self._home):
            self._start(folder)

    def serve(self) -> None:
        while not self._is_leaving:
            self._loop.wait(self._seconds_to_next())
            if self._is_leaving:
                break
            self._stop_enforcer.kill_overdue()
            self._container_sweeper.begin_if_due()
            self._pool.check()
            for pid in self._loop.take_ended():
                self._child_ended(pid)
            for part in [part for part, at in self._restart_at.items() if at <= now()]:
                del self._restart_at[part]
                self._start(TaskFolder(self._home, part))
            if self._children or self._adopted or self._restart_at:
                self._last_busy = now()
            elif self._may_exit():
                self._is_leaving = True
        log.info("The agent stops. %d supervisors go on.", len(self._children) + len(self._adopted))
        with contextlib.suppress(FileNotFoundError):
            (self._home / AGENT_SOCKET).unlink()

    def _seconds_to_next(self) -> float:
        times = [*self._restart_at.values(), *self._stop_enforcer.next_times()]
        times += [*self._container_sweeper.next_times(), *self._pool.next_times()]
        return max(0.01, min([now() + _POLL_SECONDS, *times]) - now())

    def _may_exit(self) -> bool:
        """Tell whether the agent has been idle for long, less long without a service, or its home is gone."""
        has_service = (self._home / "service.json").exists()
        limit = _IDLE_SECONDS if has_service else _IDLE_WITHOUT_SERVICE_SECONDS
        return not (self._home / AGENT_LOCK).exists() or now() - self._last_busy >= limit

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        with connection:
            connection.settimeout(2.0)
            # The caller may have gone away.
            with contextlib.suppress(OSError):
                answer = self._answer(read_line(connection))
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, line: bytes) -> Json:
        try:
            request = json.loads(line)
            if not is_for_home(self._home, request):
                return {OTHER_HOME: True}
            return self._do(request["op"], request)
        except RunyardError as e:
            return {"error": str(e)}
        except (ValueError, KeyError, TypeError) as e:
            return {"error": f"Not a request: {type(e).__name__}: {e}"}

    def _do(self, op: str, request: Json) -> Json:
        if op in ("start", "recover"):
            return {"pid": self._start(TaskFolder(self._home, request["part"]))}
        if op == "cancel":
            TaskFolder(self._home, request["part"]).request_cancel(
                float(request["grace"]), request.get("end_as", "canceled")
            )
            return {}
        if op == "status":
            parts = {part: pid for pid, part in self._children.items()}
            guard = None if self._guard is None else self._guard.format()
            facts = {"pid": os.getpid(), "version": self._version, "attempts": parts, "guard": guard}
            return {**facts, "idle": self._pool.idle}
        if op == "exit":
            self._is_leaving = True
            return {}
        raise ValueError(f"unknown op {op!r}")

    def _start(self, folder: TaskFolder) -> int | None:
        """Start a supervisor and return its pid. Return None when the task has one already, or is gone."""
        lock = folder.take_lock() if folder.exists() else None
        if lock is None:
            self._watch_adopted(folder)
            return None
        try:
            pid = self._give_to_supervisor(folder, lock)
        finally:
            os.close(lock)
        self._children[pid] = folder.part
        log.info("Process %d is the supervisor of %s.", pid, folder.part, extra={"run": _run_of(folder.part)})
        self._stop_enforcer.watch(folder)
        self._last_busy = now()
        return pid

    def _give_to_supervisor(self, folder: TaskFolder, lock: int) -> int:
        task = NextTask(folder.part, lock, self._sdk_folder())
        # What another supervisor began is recovered by a new process: it can have nothing of other tasks in it.
        pid = None if folder.was_supervised() else self._pool.hand_over(task)
        return self._fork_supervisor(task) if pid is None else pid

    def _fork_supervisor(self, task: NextTask) -> int:
        own_end, other_end = open_channel()
        pid = os.fork()
        if pid == 0:
            own_end.close()
            self._become_supervisor(task, other_end)
        other_end.close()
        self._pool.add(pid, own_end)
        return pid

    def _sdk_folder(self) -> Path | None:
        """Find or make the SDK folder, once: another SDK means another agent. Return None when that fails."""
        if self._sdk is None or not self._sdk.is_dir():
            try:
                self._sdk = ensure_sdk_folder(self._home)
            except (OSError, RunyardError):
                return None  # the supervisor gets the same error, and can report it
            self._bytecode = Bytecode(self._sdk)
        self._bytecode.remove_truncated()
        return self._sdk

    def _watch_adopted(self, folder: TaskFolder) -> None:
        """Watch a supervisor that an earlier agent forked: it is no child of this process, so by a pidfd."""
        followed = {*self._children.values(), *self._adopted.values()}
        if folder.part in followed or not folder.exists():
            return
        supervisor = folder.supervisor()
        if supervisor is None:
            # Another process holds the lock for a moment, to test whether it is held.
            self._restart_at[folder.part] = now() + _LOCK_RETRY_SECONDS
            return
        try:
            pidfd = os.pidfd_open(supervisor.pid)
        except OSError:
            return
        self._adopted[pidfd] = folder.part
        self._stop_enforcer.watch(folder)
        self._loop.on_readable(pidfd, lambda: self._adopted_ended(pidfd))

    def _adopted_ended(self, pidfd: int) -> None:
        self._loop.forget(pidfd)
        os.close(pidfd)
        self._ended(self._adopted.pop(pidfd))

    def _finished(self, pid: int) -> None:
        """A supervisor has finished its task and waits for another."""
        part = self._children.pop(pid, None)
        if part is not None:
            self._ended(part)

    def _has_begun(self, pid: int) -> bool:
        return pid not in self._children or TaskFolder(self._home, self._children[pid]).was_supervised()

    def _child_ended(self, pid: int) -> None:
        self._pool.remove(pid)
        part = self._children.pop(pid, None)
        if part is not None:
            self._ended(part)

    def _ended(self, part: str) -> None:
        """Restart a supervisor that was killed: one that finished has deleted the task's folder."""
        if not TaskFolder(self._home, part).exists():
            self._restarts.pop(part, None)
            self._container_sweeper.schedule_soon()
            return
        restarts = self._restarts[part] = self._restarts.get(part, 0) + 1
        again = "another one recovers it" if restarts <= _MOST_RESTARTS else "it is given up"
        log.warning("A supervisor of %s was killed; %s.", part, again, extra={"run": _run_of(part)})
        if restarts <= _MOST_RESTARTS:
            self._restart_at[part] = now() + (0 if restarts == 1 else 2.0**restarts / 4)

    def _close_own_descriptors(self) -> None:
        """Close, in a forked child, the descriptors that belong to the agent alone."""
        signal.set_wakeup_fd(-1)
        self._listener.close()
        self._stop_enforcer.close()
        self._pool.close()
        os.close(self._lock)
        for pidfd in self._adopted:
            os.close(pidfd)

    def _become_supervisor(self, first: NextTask, channel: socket.socket) -> None:
        status, connections = 1, TaskConnections(self._home)
        try:
            os.setsid()
            os.umask(users_umask())  # private files get explicit modes; the script needs the user's umask
            _redirect_output(self._home)
            self._close_own_descriptors()
            settings = inherited_settings()
            # A script may have changed them, and the script of another task must not get them.
            carry_out_tasks(
                first,
                channel,
                lambda task: self._supervise(task, connections.for_task()) and inherited_settings() == settings,
            )
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _supervise(self, task: NextTask, connections: ConnectionPool) -> bool:
        """Carry out a task. Return True if this process may take another one."""
        label_lines("supervisor", _run_of(task.part))
        folder = TaskFolder(self._home, task.part)
        try:
            return supervise(folder, task.lock, task.sdk, self._keeper, connections)
        except BaseException:
            log.exception("The supervisor of %s failed.", task.part)
            raise
        finally:
            os.close(task.lock)


def _run_of(part: str) -> str:
    """Id of the run that the task belongs to."""
    return run_of(AttemptId(part))


def _redirect_output(home: Path) -> None:
    """Use the agent's log, not what the agent was given: a pipe would stay open for as long as a run lasts."""
    log = os.open(home / AGENT_LOG, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
