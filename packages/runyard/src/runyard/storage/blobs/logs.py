import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from runyard.core.disk import disk_errors_explained, sync_folder, write_all
from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.names import check_relative_path, check_run_id


class FileLogStore:
    """Logs as plain files `RUN/PATH` below a folder, readable by any tool. Safe among processes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        with disk_errors_explained(root):
            root.mkdir(parents=True, exist_ok=True)

    def append(self, run_id: str, path: str, offset: int, data: bytes) -> int:
        file = self._file(run_id, path)
        with disk_errors_explained(file):
            fd = _opened_for_append(file)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                end = os.fstat(fd).st_size
                if offset > end:
                    raise _gap(run_id, path, offset, end)
                fresh = memoryview(data)[end - offset :]
                if fresh:
                    _write_or_undo(fd, fresh, end)
                return end + len(fresh)
            finally:
                os.close(fd)

    def size(self, run_id: str, path: str) -> int:
        try:
            return self._file(run_id, path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def sizes(self, run_id: str) -> dict[str, int]:
        folder = self._folder(run_id)
        found = {file.relative_to(folder).as_posix(): file.stat().st_size for file in _files(folder)}
        return dict(sorted(found.items()))

    def read(self, run_id: str, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        """Available bytes of the range; empty past the end or if there is no log."""
        try:
            with open(self._file(run_id, path), "rb") as log:
                there = max(0, os.fstat(log.fileno()).st_size - offset)
                log.seek(offset if there else 0)
                return log.read(there if limit is None else min(limit, there))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return b""

    def seal(self, run_id: str) -> None:
        folder = self._folder(run_id)
        with disk_errors_explained(folder):
            folders = {self._root}
            for file in _files(folder):
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fdatasync(fd)
                finally:
                    os.close(fd)
                folders.update(parent for parent in file.parents if parent.is_relative_to(folder))
            for changed in folders:
                sync_folder(changed)

    def delete(self, run_id: str) -> None:
        shutil.rmtree(self._folder(run_id), ignore_errors=True)

    def _folder(self, run_id: str) -> Path:
        return self._root / check_run_id(run_id)

    def _file(self, run_id: str, path: str) -> Path:
        return self._folder(run_id) / check_relative_path(path, "log path")


def _opened_for_append(file: Path) -> int:
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(file, flags, 0o600)
    except FileNotFoundError:
        pass
    except (NotADirectoryError, IsADirectoryError) as error:
        raise _clash(file) from error
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise _clash(file) from error
    return os.open(file, flags, 0o600)


def _write_or_undo(fd: int, data: memoryview, end: int) -> None:
    try:
        write_all(fd, data)
    except OSError:
        os.ftruncate(fd, end)  # the client sends unacknowledged data again
        raise


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _gap(run_id: str, path: str, offset: int, end: int) -> Conflict:
    return Conflict(
        f"Log {path!r} of run {run_id!r} ends at byte {end}; nothing can be added at {offset}.",
        hint=f"Send it from byte {end}.",
        offset=end,
    )


def _clash(file: Path) -> InvalidArgument:
    return InvalidArgument(f"The log {file.name!r} would be a file and a folder at once.", hint="Choose another name.")
