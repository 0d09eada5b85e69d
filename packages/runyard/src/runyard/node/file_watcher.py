import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path


class FileChange(IntFlag):
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


_IN_FOLDER = (
    FileChange.MODIFY
    | FileChange.CLOSE_WRITE
    | FileChange.MOVED_TO
    | FileChange.CREATE
    | FileChange.ONLY_FOLDERS
    | FileChange.NO_LINKS
)
Listener = Callable[[Path, FileChange], None]


@dataclass(frozen=True)
class FileEvent:
    """One change. `watch` is what `add` returned; on OVERFLOW it is -1, and changes were lost."""

    watch: int
    change: FileChange
    name: str


class FileWatcher:
    """Calls listeners with the files that changed in watched folders.

    `missed` turns true when the kernel dropped events, and `is_whole` false when a tree was too large to watch whole:
    the owner then has to scan the folders itself.
    """

    def __init__(self, most_folders: int = 2000) -> None:
        self._inotify = Inotify()
        self._watched: dict[int, tuple[Path, Listener, bool]] = {}
        self._most_folders = most_folders
        self.missed = False
        self.is_whole = True

    def fileno(self) -> int:
        return self._inotify.fileno()

    def watch_folder(self, folder: Path, listener: Listener) -> None:
        """Report changes of files directly in the folder."""
        self._watched[self._inotify.add(folder, _IN_FOLDER)] = (folder, listener, False)

    def watch_arrivals(self, folder: Path, listener: Listener) -> None:
        """Report files made in the folder or moved into it, not writes."""
        arrivals = FileChange.CREATE | FileChange.MOVED_TO | FileChange.ONLY_FOLDERS
        self._watched[self._inotify.add(folder, arrivals)] = (folder, listener, False)

    def watch_tree(self, root: Path, listener: Listener) -> None:
        """Report changes anywhere below, also in folders made later. Existing files are reported as FOUND."""
        folders = [root]
        while folders:
            folder = folders.pop()
            if not self._watch_one_of_tree(folder, listener):
                continue
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    listener(Path(entry.path), FileChange.FOUND)

    def dispatch(self) -> None:
        """Call the listeners for all changes known now."""
        for event in self._inotify.read():
            if event.change & FileChange.OVERFLOW:
                self.missed = True
            elif event.change & FileChange.GONE:
                self._watched.pop(event.watch, None)
            elif event.watch in self._watched:
                self._call_listener(event)

    def close(self) -> None:
        self._inotify.close()

    def _watch_one_of_tree(self, folder: Path, listener: Listener) -> bool:
        if len(self._watched) >= self._most_folders:
            self.is_whole = False
            return False
        try:
            watch = self._inotify.add(folder, _IN_FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # The user's limit on watches is reached (ENOSPC), or the folder may not be read.
            self.is_whole = False
            return False
        self._watched[watch] = (folder, listener, True)
        return True

    def _call_listener(self, event: FileEvent) -> None:
        folder, listener, is_tree = self._watched[event.watch]
        path = folder / event.name
        if event.change & FileChange.FOLDER:
            if is_tree and event.change & (FileChange.CREATE | FileChange.MOVED_TO):
                self.watch_tree(path, listener)
            elif not is_tree:
                listener(path, event.change)
            return
        listener(path, event.change)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Binding of inotify(7). The descriptor is readable when there are events."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def fileno(self) -> int:
        return self._fd

    def add(self, folder: Path, changes: FileChange) -> int:
        """Watch a folder. The same folder gives the same watch. OSError when it is gone, or no watch is left."""
        return _checked(_libc.inotify_add_watch(self._fd, os.fsencode(folder), int(changes)))

    def read(self) -> Iterator[FileEvent]:
        """Yield the events that are there now, without blocking."""
        while True:
            try:
                chunk = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            yield from _parse_events(chunk)

    def close(self) -> None:
        os.close(self._fd)


def _parse_events(chunk: bytes) -> Iterator[FileEvent]:
    at = 0
    while at < len(chunk):
        watch, change, _, length = _HEADER.unpack_from(chunk, at)
        at += _HEADER.size
        name = chunk[at : at + length].rstrip(b"\0")
        at += length
        yield FileEvent(watch, FileChange(change), os.fsdecode(name))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
