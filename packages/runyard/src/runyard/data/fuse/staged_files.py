import fcntl
import os
import secrets
import shutil
import threading
from pathlib import Path


class StagedFile:
    """Content that a script writes to a file, on local disk until it is stored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self, start: int, length: int) -> bytes:
        return os.pread(self._fd, length, start)

    def write(self, data: bytes | memoryview, start: int) -> None:
        """Write all bytes. Raises OSError, such as ENOSPC."""
        rest = memoryview(data)
        while len(rest):
            count = os.pwrite(self._fd, rest, start)
            rest, start = rest[count:], start + count

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def remove(self) -> None:
        os.close(self._fd)
        self.path.unlink(missing_ok=True)


class StagingFolder:
    """Folder for the staged files of this process. What a killed process left is removed by the next one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._own: Path | None = None
        self._held = -1

    @property
    def disk(self) -> Path:
        """Existing folder on the disk that is written to."""
        return next(folder for folder in (self._folder, *self._folder.parents) if folder.is_dir())

    def new_file(self) -> StagedFile:
        with self._lock:
            if self._own is None:
                self._own = self._claimed()
        return StagedFile(self._own / secrets.token_hex(8))

    def close(self) -> None:
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._held)
            self._own = None

    def _claimed(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        own = self._folder / secrets.token_hex(8)
        # Locked under a name that _remove_abandoned ignores, so that it is never seen unlocked.
        unseen = own.with_name(f".{own.name}")
        unseen.mkdir(mode=0o700)
        self._held = os.open(unseen, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        unseen.rename(own)
        return own

    def _remove_abandoned(self) -> None:
        for folder in self._folder.glob("[0-9a-f]*"):
            try:
                held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(held)
