"""The exit keeper: the agent's parent. It outlives agent and supervisors, and writes how orphaned scripts ended.

A script is its supervisor's child. When the supervisor is killed, the kernel reparents the script to the nearest
ancestor that is a child subreaper: the exit keeper. It writes the script's wait status, for the next supervisor. A run
whose supervisor lives costs it nothing.

It stays in memory for long, so it imports little: the agent is its fork and imports the rest. When the keeper is killed
the kernel kills the agent too, so that no supervisor is started without a keeper. It exits after its last child.

`python -m runyard.node.exit_keeper HOME [READY_FD [GUARD]]`; `runyard.node.agent.main` takes the same.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

from runyard.node.processes.exit_status import (
    ENDS,
    has_unregistered,
    registered_file,
    wait_status,
    write_status_durably,
    write_unregistered_status,
)
from runyard.node.processes.procfs import ProcessId, adopt_orphans, die_with_parent, identify, is_session_leader

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main(home: Path, ready_fd: int | None, guard: str | None) -> int:
    """Start the agent. Return its exit code when it and all that it started have ended."""
    if guard is not None and os.fork():
        return 0  # whoever started this process may kill its own children when it ends
    adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, it would have the kernel drop wait statuses
    agent = os.fork()
    if agent == 0:
        return _be_agent(home, ready_fd, guard)
    if ready_fd is not None:
        os.close(ready_fd)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    return _keep(home, agent)


def _be_agent(home: Path, ready_fd: int | None, guard: str | None) -> int:
    keeper = os.getppid()
    die_with_parent(keeper)
    # Only the fork imports the agent: the keeper stays small for as long as a run lasts.
    from runyard.node.agent import main as serve

    return serve(home, ready_fd, None if guard is None else ProcessId.parse(guard), identify(keeper))


def _keep(home: Path, agent: int | None) -> int:
    status = 0
    while True:
        try:
            # Reaped only after its status is written: a kill in between would lose it.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return _exit_as(status)
        assert found is not None
        if found.si_pid == agent:
            status, agent = wait_status(found), None  # a later process may have its number
        else:
            _write_status(home, found.si_pid, wait_status(found))
        os.waitpid(found.si_pid, 0)


def _write_status(home: Path, pid: int, status: int) -> None:
    """Write the status for the task that the process belongs to. Go on with other tasks where that fails."""
    process = identify(pid)
    if process is None:
        return
    folders = [folder / ENDS for folder in _task_folders(home)]
    # Read first: the process may be registered in between.
    may_own_it = [ends for ends in folders if has_unregistered(ends)] if is_session_leader(pid) else []
    rooms = [room for ends in folders if os.path.exists(room := registered_file(ends, process))]
    for room in rooms:
        with contextlib.suppress(OSError):
            write_status_durably(room, status)
    for ends in may_own_it if not rooms else ():  # otherwise a script started it
        with contextlib.suppress(OSError):
            write_unregistered_status(ends, process, status)


def _task_folders(home: Path) -> list[Path]:
    try:
        return [home / "attempts" / name for name in os.listdir(home / "attempts")]
    except OSError:  # the home is gone, or has had no task
        return []


def _exit_as(status: int) -> int:
    """Return the agent's exit code. If a signal ended the agent, end this process by the same signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code in _SIGNALS:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    ready = int(sys.argv[2]) if len(sys.argv) > 2 else None
    sys.exit(main(Path(sys.argv[1]), ready, sys.argv[3] if len(sys.argv) > 3 else None))
