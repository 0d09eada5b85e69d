import contextlib
import errno
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial

from runyard.core.ports.data import DataStore
from runyard.core.records.data import SourceFile, StoredFile
from runyard.data.fuse.failures import RecentFailures, errno_of, logged_errors, os_error
from runyard.data.fuse.log import MountLog
from runyard.data.fuse.protocol import RenameFlag
from runyard.data.fuse.read_only_tree import FileReader
from runyard.data.fuse.remote_names import FileNode, FolderNode, Node, RemoteNames
from runyard.data.fuse.staged_files import StagedFile, StagingFolder

_PIECE_BYTES = 8 << 20
_MOST_LISTED = 100
_KEPT_FILES, _KEPT_BYTES = 64, 256 << 20


class FileContents:
    """Contents of the files of a writable mount.

    Reads come from the store; from the first write on, the file is on local disk. It is stored when the script closes
    or syncs it.
    """

    def __init__(
        self,
        store_name: str,
        store: DataStore,
        names: RemoteNames,
        reader: FileReader,
        staging: StagingFolder,
        log: MountLog,
    ) -> None:
        self._store_name, self._store, self._names = store_name, store, names
        self._reader, self._staging, self._log = reader, staging, log
        self._lock = threading.Lock()
        self._kept: OrderedDict[FileNode, int] = OrderedDict()
        self._store_errors: dict[FileNode, str] = {}
        self._failures = RecentFailures()
        self.sent_bytes = 0
        """Bytes uploaded so far, also of files that are not complete."""
        self.written_files = 0
        self.written_bytes = 0

    def read(self, file: FileNode, start: int, length: int) -> Sequence[bytes | memoryview]:
        with file.content:
            if file.staged is not None and not file.is_staged_stale:
                return (file.staged.read(start, length),)
        if file.stored is None:
            return ()
        self._failures.raise_recent(file.number)
        try:
            with self._logged(file, "Reading"):
                return self._reader.read(self._source(file), start, length)
        except OSError as error:
            self._failures.note(file.number, errno_of(error))
            raise

    def write(self, file: FileNode, start: int, data: memoryview) -> None:
        with file.content:
            self._stage(file).write(data, start)
            _changed(file)

    def truncate(self, file: FileNode, size: int) -> None:
        with file.content:
            staged = self._stage_empty(file) if size == 0 else self._stage(file)
            staged.truncate(size)
            _changed(file)

    def start_empty(self, file: FileNode) -> None:
        """Start a new file. It is stored even if nothing is written to it."""
        with file.content:
            self._stage_empty(file)
            _changed(file)

    def claim(self, file: FileNode) -> None:
        """Store an empty file for O_EXCL. Raises EEXIST if another writer has created it."""
        with file.content, self._logged(file, "Making"):
            file.stored = self._store.put(
                self._names.key(file), self._stage_empty(file).path, overwrite=False, progress=_no_progress
            )

    def store(self, file: FileNode) -> None:
        """Upload the file if it has changed; returns when the store has it."""
        with file.content:
            self._store_at(file, self._names.key(file))

    def store_under(self, file: FileNode, key: str) -> None:
        """Store the file under that key, changed or not. The caller holds `file.content`."""
        self._stage(file)
        file.changes += 1
        self._store_at(file, key)

    def delete(self, key: str) -> None:
        with logged_errors(self._log, f"Removing {key!r}"):
            self._store.delete(key)

    def remove(self, file: FileNode) -> None:
        with file.content:
            if file.stored is not None:
                self.delete(self._names.key(file))
            file.is_removed = True
            self._store_errors.pop(file, None)
            if not file.opened:
                self._unstage(file)

    def closed(self, file: FileNode) -> None:
        """Handle the last close. The staged content is kept for a while: it is often read or renamed next.

        What could not be stored at close is tried again only when the mount ends.
        """
        if file.is_dirty and file not in self._store_errors:
            with suppress(OSError):
                self.store(file)  # changed through mmap after the last close
        with self._lock:
            if file.staged is None or file.is_dirty:
                return
            if file.is_removed:
                self._unstage(file)
                return
            self._kept[file] = file.staged.size
            self._kept.move_to_end(file)
            old = []
            while len(self._kept) > _KEPT_FILES or sum(self._kept.values()) > _KEPT_BYTES:
                old.append(self._kept.popitem(last=False)[0])
        for one in old:
            with one.content:
                if not one.opened and not one.is_dirty:
                    self._unstage(one)

    def lost(self) -> list[str]:
        """A sentence for each file whose last content was not stored."""
        lost = [file for file in self._names.table.files() if file.is_dirty]
        sentences = [
            self._store_errors.get(file) or f"{self._names.key(file)!r} was not written."
            for file in lost[:_MOST_LISTED]
        ]
        return sentences + (
            [f"{len(lost) - _MOST_LISTED} more files were not written."] if len(lost) > _MOST_LISTED else []
        )

    def _source(self, file: FileNode) -> SourceFile:
        assert file.stored is not None
        stored = file.stored
        return SourceFile(
            self._names.key(file), self._store_name, stored.path, stored.size, stored.etag, stored.is_ranged
        )

    def _stage(self, file: FileNode) -> StagedFile:
        if file.staged is not None and not file.is_staged_stale:
            return file.staged
        self._unstage(file)
        staged = self._staging.new_file()
        try:
            if file.stored is not None:
                with self._logged(file, "Reading"):
                    self._download(self._source(file), staged)
        except BaseException:
            staged.remove()
            raise
        file.staged = staged
        return staged

    def _download(self, source: SourceFile, staged: StagedFile) -> None:
        for start in range(0, source.size or 0, _PIECE_BYTES):
            at = start
            for piece in self._reader.read(source, start, _PIECE_BYTES):
                staged.write(piece, at)
                at += len(piece)

    def _stage_empty(self, file: FileNode) -> StagedFile:
        if file.staged is None:
            file.staged = self._staging.new_file()
        file.staged.truncate(0)
        file.is_staged_stale = False
        return file.staged

    def _unstage(self, file: FileNode) -> None:
        staged, file.staged, file.is_staged_stale = file.staged, None, False
        if staged is not None:
            staged.remove()

    def _store_at(self, file: FileNode, key: str) -> None:
        if not file.is_dirty or file.staged is None:
            return
        upto, size = file.changes, file.staged.size
        with logged_errors(self._log, f"Writing {key!r}", partial(self._store_errors.__setitem__, file)):
            file.stored = self._store.put(key, file.staged.path, overwrite=True, progress=self._count)
        file.written, file.seen_at = upto, time.monotonic()
        self._store_errors.pop(file, None)
        with self._lock:
            self.written_files += 1
            self.written_bytes += size

    def _count(self, more: int) -> None:
        with self._lock:
            self.sent_bytes += more

    def _logged(self, file: FileNode, doing: str) -> AbstractContextManager[None]:
        return logged_errors(self._log, f"{doing} {self._names.key(file)!r}")


def _changed(file: FileNode) -> None:
    file.changes += 1
    file.modified_ns = time.time_ns()


def _no_progress(_: int) -> None:
    pass


FolderEntry = tuple[FolderNode, str]


def rename(names: RemoteNames, contents: FileContents, source: FolderEntry, target: FolderEntry, flags: int) -> None:
    """Rename by copy, since stores cannot rename: store each file under its new key, then delete the old keys.

    After an error all files have their old names.
    """
    if flags & ~RenameFlag.NO_REPLACE:
        raise os_error(errno.EINVAL)
    moved = names.child(*source)
    if moved is None:
        raise os_error(errno.ENOENT)
    replaced = names.child(*target)
    _check(names, moved, replaced, flags)
    files = [moved] if isinstance(moved, FileNode) else list(names.files_below(moved))
    with contextlib.ExitStack() as held:
        for file in sorted(files, key=lambda file: file.number):
            held.enter_context(file.content)
        old_keys = _stored_under_new_keys(names, contents, moved, files, target)
        if isinstance(replaced, FileNode):
            replaced.is_removed = True
        names.move(moved, *target)
    for key in old_keys:
        contents.delete(key)


def _check(names: RemoteNames, moved: Node, replaced: Node | None, flags: int) -> None:
    if replaced is None:
        return
    if flags & RenameFlag.NO_REPLACE:
        raise os_error(errno.EEXIST)
    if isinstance(replaced, FolderNode):
        if isinstance(moved, FileNode):
            raise os_error(errno.EISDIR)
        if names.children(replaced):
            raise os_error(errno.ENOTEMPTY)
    elif isinstance(moved, FolderNode):
        raise os_error(errno.ENOTDIR)


def _stored_under_new_keys(
    names: RemoteNames, contents: FileContents, moved: Node, files: list[FileNode], target: FolderEntry
) -> list[str]:
    """Store the files under new keys; return the old keys to delete. Skips files that were never stored."""
    above = names.key(target[0])
    new_top, old_top = f"{above}/{target[1]}" if above else target[1], names.key(moved)
    done: list[tuple[FileNode, StoredFile, str, str]] = []
    try:
        for file in files:
            if file.stored is not None:
                before, old = file.stored, names.key(file)
                new = new_top + old[len(old_top) :]
                contents.store_under(file, new)
                done.append((file, before, old, new))
    except OSError:
        for file, before, _, new in done:
            file.stored = before
            file.changes += 1
            with contextlib.suppress(OSError):
                contents.delete(new)
        raise
    return [old for _, _, old, _ in done]
