"""Files that say how the processes of a part ended, in `ends/` of its folder.

`.RANK` is room on the disk, held since before the process starts. It becomes `PID.STARTED` when the process runs, and
`RANK`, with the wait status, when it has ended. Who reaps the process writes the status first: its supervisor, or, once
that is dead, the exit keeper. `started-RANK` is made by the new process itself before it becomes the script.

`left-PID.STARTED` has the wait status of a process that nobody had registered when it ended. The exit keeper leaves it
in each part whose supervisor may have been killed before it registered that process.
"""

import contextlib
import errno
import json
import os
import time
from pathlib import Path

from runyard.node.processes import ProcessId

ENDS = "ends"
_ROOM_BYTES = 256
_LEFT = "left-"
_RETRY_SECONDS = 0.2
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.ENFILE, errno.EMFILE)


def make_room(ends: Path, name: str) -> None:
    """Raises OSError when the disk is full."""
    descriptor = os.open(_room(ends, name), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _ROOM_BYTES)
        _write(descriptor, {"rank": name})
    finally:
        os.close(descriptor)


def marker(ends: Path, name: str) -> Path:
    """The file that is there from the moment when the process `name` has started."""
    return ends / f"started-{name}"


def register(ends: Path, name: str, process: ProcessId) -> Path:
    """Have whoever reaps the process find the room for its status. Returns the room."""
    room = registered(ends, process)
    os.rename(_room(ends, name), room)
    return room


def registered(ends: Path, process: ProcessId) -> Path:
    return ends / f"{process.pid}.{process.started}"


def running(ends: Path) -> dict[str, ProcessId]:
    """Processes that were registered and of which no end has been written."""
    found = {}
    for file in ends.glob("[0-9]*.[0-9]*"):
        try:
            pid, _, started = file.name.partition(".")
            found[str(json.loads(file.read_bytes())["rank"])] = ProcessId(int(pid), int(started))
        except (OSError, ValueError, KeyError, TypeError):  # its end is written at this moment
            continue
    return found


def ended(ends: Path) -> set[ProcessId]:
    """Processes that were registered and whose end has been written."""
    found = set()
    for file in ends.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it still runs
            pid, started = json.loads(file.read_bytes())["process"]
            found.add(ProcessId(int(pid), int(started)))
    return found


def has_unregistered(ends: Path) -> bool:
    """Tell whether a process was started and not registered: its supervisor is about to do that, or was killed."""
    try:
        names = set(os.listdir(ends))
    except OSError:
        return False
    return any(marker(ends, name.removeprefix(".")).name in names for name in names if name.startswith("."))


def leave_status(ends: Path, process: ProcessId, status: int) -> None:
    """Keep the wait status of a process that may be one of this part. Raises OSError."""
    (ends / f"{_LEFT}{process.pid}.{process.started}").write_text(json.dumps({"status": status}), encoding="utf-8")


def left_statuses(ends: Path) -> dict[ProcessId, int]:
    """Wait statuses that `leave_status` has kept."""
    found = {}
    for file in ends.glob(f"{_LEFT}*"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it is written at this moment
            pid, _, started = file.name.removeprefix(_LEFT).partition(".")
            found[ProcessId(int(pid), int(started))] = int(json.loads(file.read_bytes())["status"])
    return found


def status_of(ends: Path, name: str) -> int | None:
    """The wait status of a process that has ended."""
    try:
        return int(json.loads((ends / name).read_bytes())["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def put_status(room: Path, status: int) -> None:
    """Write the wait status of a registered process, visible at once. Raises OSError."""
    _put(room, status, durable=False)


def insist_on_status(room: Path, status: int) -> None:
    """Write as `put_status` does, again while the machine lacks something; it outlives a power cut."""
    while True:
        try:
            return _put(room, status, durable=True)
        except OSError as e:
            if e.errno not in _PASSING:  # the part is gone, or somebody has changed its files
                raise
            time.sleep(_RETRY_SECONDS)  # a disk so full that not even a name can be changed


def wait_status(found: os.waitid_result) -> int:
    if found.si_code == os.CLD_EXITED:
        return found.si_status << 8
    return found.si_status | (0x80 if found.si_code == os.CLD_DUMPED else 0)


def _room(ends: Path, name: str) -> Path:
    return ends / f".{name}"


def _put(room: Path, status: int, *, durable: bool) -> None:
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
    """A script may write to the files of its part, so what is read here may be anything."""
    try:
        name = json.loads(room)["rank"]
    except (ValueError, KeyError, TypeError):
        name = None
    if not isinstance(name, str) or not name.isdecimal():
        raise OSError(errno.EINVAL, "the room of an exit status was changed")
    return name


def _write(descriptor: int, body: dict[str, object]) -> None:
    os.pwrite(descriptor, json.dumps(body).ljust(_ROOM_BYTES).encode(), 0)
