"""A FUSE server on /dev/fuse, without libfuse.

Python libraries on libfuse's path-based interface cannot reply ENOSYS to OPEN and OPENDIR. So each open and close costs
a message, and data is copied once more. Here, a file that the kernel has cached is opened, read and closed without
waking this process. Compared with mfusepy, on the same small files and a busy machine with two cores: mfusepy took more
than twice the CPU time per file, and read a third of the files per second in the second epoch.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from runyard.data.fuse import protocol
from runyard.data.fuse.caller_processes import is_being_killed
from runyard.data.fuse.log import MountLog
from runyard.data.fuse.protocol import FuseRequest, InitFlag, Op

REQUEST_BYTES = 1 << 20
READ_AHEAD_BYTES = 4 << 20
_PAGE_BYTES = 4096
_FIRST_WORKERS = 2
_MOST_WORKERS = 64
_MAX_BACKGROUND = 64
_WRITE_HEAD_BYTES = _PAGE_BYTES

Reply = Sequence[bytes | memoryview] | None
"""None: the kernel expects no reply."""
Handler = Callable[[FuseRequest], Reply]


class Tree(Protocol):
    """Content of a mount. Handlers are called by many threads at once; the script gets the OSError that they raise."""

    @property
    def is_writable(self) -> bool: ...

    def handlers(self) -> Mapping[int, Handler]:
        """Handlers by opcode. The reply to any other opcode is ENOSYS."""


class FuseServer:
    """Serves the requests of one mount until it is unmounted."""

    def __init__(self, device: int, tree: Tree, log: MountLog) -> None:
        self._device, self._log = device, log
        self._is_writable = tree.is_writable
        self._handlers = {**tree.handlers(), Op.INTERRUPT: self._interrupt, Op.DESTROY: _done}
        self._buffer_bytes = _WRITE_HEAD_BYTES + REQUEST_BYTES if tree.is_writable else protocol.MIN_READ_BUFFER
        self._leader = LeaderLock(self._add_worker, _MOST_WORKERS)
        self._workers: list[threading.Thread] = []
        self._pending: dict[int, int] = {}
        self._interrupted: set[int] = set()

    def start(self) -> None:
        """Do the INIT handshake and start the workers. Returns when the mount is ready."""
        self._handshake()
        for _ in range(_FIRST_WORKERS):
            self._add_worker()

    def wait(self, seconds: float) -> None:
        """Wait, at most so long, until all workers have ended: the mount has no request and no open file left."""
        end = time.monotonic() + seconds
        for worker in list(self._workers):
            worker.join(max(0.0, end - time.monotonic()))

    def release_killed(self) -> None:
        """Reply EINTR to requests of processes with a pending SIGKILL: otherwise they would wait for the real reply.

        Call it regularly. The kernel reports only the first signal, which may have been another one.
        """
        for unique in list(self._interrupted):
            pid = self._pending.get(unique)
            if pid is None:
                self._interrupted.discard(unique)
            elif is_being_killed(pid) and self._pending.pop(unique, None) is not None:
                self._answer(unique, -errno.EINTR, ())

    def _add_worker(self) -> None:
        worker = threading.Thread(target=self._work, name=f"fuse-{len(self._workers)}", daemon=True)
        self._workers.append(worker)
        worker.start()

    def _work(self) -> None:
        buffer = bytearray(self._buffer_bytes)
        view = memoryview(buffer)
        leader, header = self._leader, protocol.IN_HEADER
        leader.joined()
        while True:
            leader.take()
            while leader.is_ours:
                length = self._receive(buffer)
                if length == 0:
                    leader.pass_on()
                    return
                if self._is_writable:  # every reply may have to wait for a store
                    leader.pass_on()
                _, op, unique, node, _, _, pid, _ = header.unpack_from(buffer)
                self._serve(FuseRequest(op, unique, node, pid, view[header.size : length]))

    def _receive(self, buffer: bytearray) -> int:
        """Receive the next message; returns its length, 0 if the mount is gone."""
        while True:
            try:
                return os.readv(self._device, [buffer])
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    return 0

    def _serve(self, request: FuseRequest) -> None:
        unique = request.unique
        handler = self._handlers.get(request.op)
        if handler is None:
            self._answer(unique, -errno.ENOSYS, ())
            return
        self._pending[unique] = request.pid
        number, reply = 0, None
        try:
            reply = handler(request)
        except OSError as error:
            number = -(error.errno or errno.EIO)
        except Exception as error:
            self._log.unexpected(error)
            number = -errno.EIO
        is_ours = self._pending.pop(unique, None) is not None
        if is_ours and (number or reply is not None):
            self._answer(unique, number, reply or ())

    def _answer(self, unique: int, number: int, pieces: Sequence[bytes | memoryview]) -> None:
        length = protocol.OUT_HEADER.size + sum(map(len, pieces))
        try:
            os.writev(self._device, [protocol.OUT_HEADER.pack(length, number, unique), *pieces])
        except OSError as error:
            # ENOENT: the request was interrupted. ENODEV, ECONNABORTED: the mount is gone.
            if error.errno not in (errno.ENOENT, errno.ENODEV, errno.ECONNABORTED):
                self._log.unexpected(error)

    def _interrupt(self, request: FuseRequest) -> Reply:
        (unique,) = protocol.INTERRUPT_IN.unpack_from(request.body)
        if unique not in self._pending:
            raise OSError(errno.EAGAIN, "not begun yet, or done")
        self._interrupted.add(unique)
        self.release_killed()
        return None

    def _handshake(self) -> None:
        buffer = bytearray(protocol.MIN_READ_BUFFER)
        if self._receive(buffer) == 0:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        unique = protocol.IN_HEADER.unpack_from(buffer)[2]
        major, minor, read_ahead, offered = protocol.INIT_IN.unpack_from(buffer, protocol.IN_HEADER.size)
        if major != protocol.MAJOR or minor < protocol.OLDEST_MINOR:
            self._answer(unique, -errno.EPROTO, ())
            raise OSError(errno.EPROTO, f"this kernel speaks FUSE {major}.{minor}")
        self._answer(unique, 0, [self._terms(min(minor, protocol.MINOR), read_ahead, offered)])

    def _terms(self, minor: int, read_ahead: int, offered: int) -> bytes:
        flags = (
            InitFlag.ASYNC_READ
            | InitFlag.BIG_WRITES
            | InitFlag.NO_OPEN_SUPPORT
            | InitFlag.NO_OPENDIR_SUPPORT
            | InitFlag.PARALLEL_DIROPS
            | InitFlag.MAX_PAGES
            | InitFlag.CACHE_SYMLINKS
        )
        if Op.READDIRPLUS in self._handlers:
            # Always, without AUTO: a script that lists a dataset opens the files next, and then needs no lookups.
            flags |= InitFlag.DO_READDIRPLUS
        return protocol.INIT_OUT.pack(
            protocol.MAJOR,
            minor,
            max(read_ahead, READ_AHEAD_BYTES),
            flags & offered,
            _MAX_BACKGROUND,
            _MAX_BACKGROUND * 3 // 4,
            REQUEST_BYTES if self._is_writable else _PAGE_BYTES,
            1,
            REQUEST_BYTES // _PAGE_BYTES,
            0,
            0,
        )


def _done(_: FuseRequest) -> Reply:
    return ()


_of_thread = threading.local()


class LeaderLock:
    """Leader/followers: one worker at a time receives requests and replies to them, without a queue to other threads,
    which would cost more than the replies. A worker that has to wait passes the leadership on first."""

    def __init__(self, add_worker: Callable[[], None], most_workers: int) -> None:
        self._add_worker, self._most_workers = add_worker, most_workers
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._workers, self._waiting = 0, 0
        self._taker = 0

    def joined(self) -> None:
        """Register the calling worker. Every worker calls it first."""
        _of_thread.leader = self
        with self._counting:
            self._workers += 1

    def take(self) -> None:
        """Wait until this worker is the leader."""
        with self._counting:
            self._waiting += 1
        self._lock.acquire()
        with self._counting:
            self._waiting -= 1
        self._taker = threading.get_ident()

    @property
    def is_ours(self) -> bool:
        return self._taker == threading.get_ident()

    def pass_on(self) -> None:
        """Make another worker the leader, a new one if all are busy. Does nothing if this worker is no leader."""
        if not self.is_ours:
            return
        self._taker = 0
        with self._counting:
            is_needed = self._waiting == 0 and self._workers < self._most_workers
        if is_needed:
            self._add_worker()
        self._lock.release()


def pass_leadership() -> None:
    """Pass the leadership on before waiting. Does nothing in threads that are no workers."""
    leader: LeaderLock | None = getattr(_of_thread, "leader", None)
    if leader is not None:
        leader.pass_on()


ListedName = tuple[bytes, int, int]
"""Name, node, mode."""


def packed_listing(request: FuseRequest, names: Sequence[ListedName], entry_of: Callable[[int], bytes] | None) -> Reply:
    """Reply to READDIR, or with `entry_of` to READDIRPLUS: as many names as fit, from the requested offset on."""
    _, offset, room = protocol.READ_IN.unpack_from(request.body)
    pieces: list[bytes] = []
    for at in range(offset, len(names)):
        name, node, mode = names[at]
        piece = protocol.directory_entry(node, name, mode, at + 1)
        if entry_of is not None:
            piece = (protocol.NO_ENTRY if name in (b".", b"..") else entry_of(node)) + piece
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return (b"".join(pieces),)
