"""Files that hold the wait statuses of a task's processes, in `ends/` of its folder.

`.RANK` reserves disk space before the process starts. It is renamed to `PID.STARTED` when the process runs, and to
`RANK`, with the wait status, when it has ended. Whoever reaps the process writes the status first: its supervisor, or
the exit keeper once the supervisor is dead. The new process itself makes `started-RANK` before it executes the script.

`left-PID.STARTED` holds the wait status of a process that was not registered when it ended. The exit keeper writes it
into each task whose supervisor may have been killed before it registered that process.
"""

import contextlib
import errno
import json
import os
import time
from pathlib import Path

from runyard.node.processes.procfs import ProcessId

ENDS = "ends"
_ROOM_BYTES = 256
_LEFT = "left-"
_RETRY_SECONDS = 0.2
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.ENFILE, errno.EMFILE)


def reserve_status_file(ends: Path, name: str) -> None:
    """Reserve disk space for the status of process `name`. Raises OSError when the disk is full."""
    descriptor = os.open(_reserved_file(ends, name), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _ROOM_BYTES)
        _write(descriptor, {"rank": name})
    finally:
        os.close(descriptor)


def started_marker(ends: Path, name: str) -> Path:
    """Path of the file that exists from the moment when process `name` has started."""
    return ends / f"started-{name}"


def register_process(ends: Path, name: str, process: ProcessId) -> Path:
    """Register a started process, so that whoever reaps it finds the file for its status. Return that file."""
    room = registered_file(ends, process)
    os.rename(_reserved_file(ends, name), room)
    return room


def registered_file(ends: Path, process: ProcessId) -> Path:
    return ends / f"{process.pid}.{process.started}"


def running_processes(ends: Path) -> dict[str, ProcessId]:
    """Registered processes without a written status, by name."""
    found = {}
    for file in ends.glob("[0-9]*.[0-9]*"):
        try:
            pid, _, started = file.name.partition(".")
            found[str(json.loads(file.read_bytes())["rank"])] = ProcessId(int(pid), int(started))
        except (OSError, ValueError, KeyError, TypeError):  # its status is being written
            continue
    return found


def ended_processes(ends: Path) -> set[ProcessId]:
    """Registered processes whose status has been written."""
    found = set()
    for file in ends.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # no status yet
            pid, started = json.loads(file.read_bytes())["process"]
            found.add(ProcessId(int(pid), int(started)))
    return found


def has_unregistered(ends: Path) -> bool:
    """Tell whether a process was started and not registered: its supervisor is about to, or was killed."""
    try:
        names = set(os.listdir(ends))
    except OSError:
        return False
    return any(started_marker(ends, name.removeprefix(".")).name in names for name in names if name.startswith("."))


def write_unregistered_status(ends: Path, process: ProcessId, status: int) -> None:
    """Write the wait status of an unregistered process that may belong to this task. Raises OSError."""
    (ends / f"{_LEFT}{process.pid}.{process.started}").write_text(json.dumps({"status": status}), encoding="utf-8")


def read_unregistered_statuses(ends: Path) -> dict[ProcessId, int]:
    """Wait statuses that `write_unregistered_status` wrote, by process."""
    found = {}
    for file in ends.glob(f"{_LEFT}*"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # being written
            pid, _, started = file.name.removeprefix(_LEFT).partition(".")
            found[ProcessId(int(pid), int(started))] = int(json.loads(file.read_bytes())["status"])
    return found


def read_status(ends: Path, name: str) -> int | None:
    """Wait status of a process that has ended; None while it is not known."""
    try:
        return int(json.loads((ends / name).read_bytes())["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_status(room: Path, status: int) -> None:
    """Write the wait status of a registered process, visible at once. Raises OSError."""
    _write_status(room, status, durable=False)


def write_status_durably(room: Path, status: int) -> None:
    """Write as `write_status` does, to disk, and retry while the machine lacks space, memory or descriptors."""
    while True:
        try:
            return _write_status(room, status, durable=True)
        except OSError as e:
            if e.errno not in _PASSING:  # the task is gone, or its files were changed
                raise
            time.sleep(_RETRY_SECONDS)  # the disk may be too full even for a rename


def wait_status(found: os.waitid_result) -> int:
    if found.si_code == os.CLD_EXITED:
        return found.si_status << 8
    return found.si_status | (0x80 if found.si_code == os.CLD_DUMPED else 0)


def _reserved_file(ends: Path, name: str) -> Path:
    return ends / f".{name}"


def _write_status(room: Path, status: int, *, durable: bool) -> None:
    descriptor = os.open(room, os.O_RDWR | os.O_CLOEXEC)
    try:
        name = _rank_in(os.pread(descriptor, _ROOM_BYTES, 0))
        process = [int(number) for number in room.name.split(".")]
        _write(descriptor, {"rank": name, "process": process, "status": status, "at": time.time()})
        os.rename(room, room.with_name(name))
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rank_in(room: bytes) -> str:
    """Rank in a status file. A script may write to the task's files, so the content is checked."""
    try:
        name = json.loads(room)["rank"]
    except (ValueError, KeyError, TypeError):
        name = None
    if not isinstance(name, str) or not name.isdecimal():
        raise OSError(errno.EINVAL, "the room of an exit status was changed")
    return name


def _write(descriptor: int, body: dict[str, object]) -> None:
    os.pwrite(descriptor, json.dumps(body).ljust(_ROOM_BYTES).encode(), 0)
