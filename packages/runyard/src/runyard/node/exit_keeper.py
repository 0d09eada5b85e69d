"""The exit keeper: the agent's parent, which outlives agent and supervisors and keeps how scripts ended.

A script is its supervisor's child. When the supervisor is killed, the kernel gives the script to the nearest ancestor
that adopts orphans, which is the keeper: it writes the script's wait status, for the supervisor that follows. It costs
nothing for a run whose supervisor lives.

It imports little, since it stays: the agent is its fork and imports the rest. Killed, it takes the agent along, so that
no supervisor is started without a keeper. It leaves when its last child has.

`python -m runyard.node.exit_keeper HOME [READY_FD [GUARD]]`, for what `runyard.node.agent.main` takes.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

from runyard.node.exit_status import (
    ENDS,
    has_unregistered,
    insist_on_status,
    leave_status,
    registered,
    wait_status,
)
from runyard.node.processes import adopt_orphans, die_with_parent, identify, leads_session

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main(home: Path, ready_fd: int | None, guard: str | None) -> int:
    """Start the agent, and return how it ended once nothing that it started is left."""
    if guard is not None and os.fork():
        return 0  # whoever started it may kill its own children at its end
    adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where somebody above ignores it, no status would be known
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
    from runyard.node.agent import main as serve
    from runyard.node.fence import parse_guard

    return serve(home, ready_fd, None if guard is None else parse_guard(guard), identify(keeper))


def _keep(home: Path, agent: int | None) -> int:
    status = 0
    while True:
        try:
            # Not reaped before its status is written: else a kill in between would lose it.
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
    """Write the status for the part that the process is of. Where that fails, go on for the other parts."""
    process = identify(pid)
    if process is None:
        return
    folders = [folder / ENDS for folder in _parts(home)]
    # First: it may be registered in between.
    may_own_it = [ends for ends in folders if has_unregistered(ends)] if leads_session(pid) else []
    rooms = [room for ends in folders if os.path.exists(room := registered(ends, process))]
    for room in rooms:
        with contextlib.suppress(OSError):
            insist_on_status(room, status)
    for ends in may_own_it if not rooms else ():  # else a script has started it
        with contextlib.suppress(OSError):
            leave_status(ends, process, status)


def _parts(home: Path) -> list[Path]:
    try:
        return [home / "attempts" / name for name in os.listdir(home / "attempts")]
    except OSError:  # the home is gone, or has had no part
        return []


def _exit_as(status: int) -> int:
    """The exit code of the agent; where a signal ended that, it ends this process too."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code in _SIGNALS:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    ready = int(sys.argv[2]) if len(sys.argv) > 2 else None
    sys.exit(main(Path(sys.argv[1]), ready, sys.argv[3] if len(sys.argv) > 3 else None))
