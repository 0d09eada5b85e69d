"""The exit keeper: the parent of a part's processes, which outlives the supervisor and keeps how they ended.

It is a fork of the supervisor, so it costs no start of an interpreter. Made as the first act of a supervisor, while
nothing has been written to the memory that they share with the agent, it costs little else. It waits for its order on a
socket: the files that it is to hold, then what to start. An order that ends half-way, with its supervisor, starts
nothing.

`ends/RANK` of the attempt's folder has the wait status of a process from its end on; `ends/.RANK` is the room for it,
held on the disk since before its start. The keeper collects orphans of the script and ends with the last process below
it.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from runyard.errors import Json
from runyard.node.attempt import AttemptFolder
from runyard.node.processes import adopt_orphans
from runyard.node.starting import Start, start

ENDS = "ends"
_ROOM_BYTES = 256
_RETRY_SECONDS = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_FILES, _NO_MORE_FILES = b"+", b"."
_MOST_FILES_AT_ONCE = 250  # the kernel takes 253


def open_files(kept_out: Collection[int]) -> list[int]:
    """Descriptors of this process that are files or namespaces: a script's environment and ports are held by them."""
    return [number for number, is_channel in _descriptors() if number not in kept_out and not is_channel]


def send_order(order: socket.socket, starts: Sequence[Start], files: Sequence[int]) -> None:
    """Raises BrokenPipeError when the keeper is gone."""
    for first in range(0, len(files), _MOST_FILES_AT_ONCE):
        socket.send_fds(order, [_FILES], files[first : first + _MOST_FILES_AT_ONCE])
    order.sendall(_NO_MORE_FILES + json.dumps([vars(start) for start in starts]).encode())
    order.shutdown(socket.SHUT_WR)


class ForkedKeeper:
    """The keeper, as its supervisor has it: its pid, and the socket for its order."""

    def __init__(self, folder: AttemptFolder, leave: Callable[[int], None], enter: Callable[[], None] | None) -> None:
        """Forks. `leave` closes what the keeper is not to hold, but not the descriptor it is called with; `enter` is
        called in each process that it starts."""
        self.order, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            _be_keeper(folder, theirs, leave, enter)
        theirs.close()


def leave_all(order: int) -> None:
    """For a keeper of the first moment, which is handed later what it is to hold."""
    # Not by os.closerange: without help of the kernel it tries every number up to a limit that may be a billion.
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != order:
            with contextlib.suppress(OSError):  # the one of the listing itself
                os.close(number)


def leave_channels(order: int, kept_out: Collection[int], life: Collection[int]) -> None:
    """For a keeper of a part with a network or mounts of its own, which are held by files that are open now."""
    for number, is_channel in _descriptors():
        if number in kept_out or (is_channel and number not in (order, *life)):
            os.close(number)


def _be_keeper(
    folder: AttemptFolder, order: socket.socket, leave: Callable[[int], None], enter: Callable[[], None] | None
) -> None:
    try:
        gc.disable()  # objects of the supervisor must not close descriptors that have other uses here
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for ending in _SIGNALS:
            signal.signal(ending, lambda *_: None)  # SIG_IGN would be inherited by the script
        os.setsid()
        adopt_orphans()
        leave(order.fileno())
        starts = _read_order(order)
        if starts is not None:
            _keep(folder, starts, order, enter)
    finally:
        os._exit(0)


def _descriptors() -> list[tuple[int, bool]]:
    """Those above the standard ones, each with whether it leads to another process or to the kernel."""
    found = []
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        with contextlib.suppress(OSError):  # the one of the listing itself
            target = os.readlink(f"/proc/self/fd/{number}")
            if number > 2:
                found.append((number, target.startswith(("socket:", "pipe:", "anon_inode:"))))
    return found


def _read_order(order: socket.socket) -> list[Start] | None:
    """None where the supervisor ended before it had said all. The files stay open."""
    while True:
        kind, _, _, _ = socket.recv_fds(order, 1, _MOST_FILES_AT_ONCE)
        if kind != _FILES:
            break
    with order.makefile("rb") as body:
        text = body.read()
    try:
        return [Start(**fields) for fields in json.loads(text)]
    except ValueError:
        return None


def _keep(
    folder: AttemptFolder, starts: Sequence[Start], order: socket.socket, enter: Callable[[], None] | None
) -> None:
    ends = folder.root / ENDS
    running: dict[int, str] = {}
    try:
        rooms = {one.name: _make_room(ends / f".{one.name}") for one in starts}
        for one in starts:
            running[start(one, enter)] = one.name
        answer: Json = {"pids": list(running)}
    except OSError as e:
        answer = {"error": ["OSError", str(e)]}
    except Exception as e:  # raised again by the supervisor
        answer = {"error": [type(e).__name__, str(e)]}
    with contextlib.suppress(BrokenPipeError), order:
        order.sendall(json.dumps(answer).encode())  # a supervisor that was killed meanwhile hears nothing
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
