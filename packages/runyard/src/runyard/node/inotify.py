import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class Change(IntFlag):
    """Kinds of change, with the numbers of inotify(7)."""

    MODIFY = 0x2
    CLOSE_WRITE = 0x8
    MOVED_TO = 0x80
    CREATE = 0x100
    OVERFLOW = 0x4000
    GONE = 0x8000
    ONLY_FOLDERS = 0x01000000
    NO_LINKS = 0x02000000
    FOLDER = 0x40000000
    FOUND = 0x100000
    """Not a number of the kernel: the file existed before the folder was watched."""


@dataclass(frozen=True)
class Notice:
    """One change. `watch` is what `add` returned; on OVERFLOW it is -1, and changes were lost."""

    watch: int
    change: Change
    name: str


class Inotify:
    """Binding of inotify(7). The descriptor is readable when there are events."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def fileno(self) -> int:
        return self._fd

    def add(self, folder: Path, changes: Change) -> int:
        """Watch a folder. The same folder gives the same watch. OSError when it is gone, or no watch is left."""
        return _checked(_libc.inotify_add_watch(self._fd, os.fsencode(folder), int(changes)))

    def read(self) -> Iterator[Notice]:
        """Yield the events that are there now, without blocking."""
        while True:
            try:
                chunk = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            yield from _notices(chunk)

    def close(self) -> None:
        os.close(self._fd)


def _notices(chunk: bytes) -> Iterator[Notice]:
    at = 0
    while at < len(chunk):
        watch, change, _, length = _HEADER.unpack_from(chunk, at)
        at += _HEADER.size
        name = chunk[at : at + length].rstrip(b"\0")
        at += length
        yield Notice(watch, Change(change), os.fsdecode(name))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
