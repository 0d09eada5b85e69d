import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.blobs.disk import write_all

_READ_ONLY = 0o400
_TOUCH_SECONDS = 300.0


@dataclass(frozen=True)
class _Facts:
    """What a link says of the file it vouches for."""

    label: str
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, label: str, stat: os.stat_result) -> "_Facts":
        return cls(label, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)

    @classmethod
    def parsed(cls, text: str) -> "_Facts | None":
        label, *numbers = text.split(".")
        try:
            size, modified, changed = (int(number, 16) for number in numbers)
        except ValueError:
            return None
        return cls(label, size, modified, changed) if label.isalnum() else None

    def text(self) -> str:
        return f"{self.label}.{self.size:x}.{self.modified:x}.{self.changed:x}"

    def hold_of(self, stat: os.stat_result) -> bool:
        # Removing the last name of a file changes its ctime: an evicted one that is still open is as good as before.
        is_untouched = stat.st_ctime_ns == self.changed or stat.st_nlink == 0
        return stat.st_size == self.size and stat.st_mtime_ns == self.modified and is_untouched


class CachedFiles:
    """Files under names of hexadecimal digits and '-', each used again only while it is what was once written.

    A file lies beside a symbolic link that states its size, mtime and ctime. The link is made last, in one step, so a
    writer that is killed leaves at most a file nothing vouches for; and no program can set a ctime, so bytes that were
    changed in place are noticed. The link's own mtime says when the file was last used. Safe for any number of
    processes; OSErrors of writing reach the caller.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def read(self, name: str, start: int, length: int, *, size: int) -> bytes | None:
        """That part of a file of that size; None when it is not here or not as it was."""
        fd = self.open(name, size=size)
        if fd is None:
            return None
        try:
            data = os.pread(fd, length, start)
        finally:
            os.close(fd)
        return data if len(data) == length else None

    def open(self, name: str, *, size: int | None = None) -> int | None:
        """A descriptor to read the file with, good until closed whatever becomes of the name."""
        link = self._link(name)
        try:
            facts = _Facts.parsed(os.readlink(link))
        except OSError:
            return None
        fd = self._opened(link, facts) if facts else None
        if fd is None:
            self._forget(link, facts)
            return None
        if size is not None and facts and facts.size != size:
            os.close(fd)
            return None
        _mark_used(link)
        return fd

    def has(self, name: str) -> bool:
        """Whether it seems to be here; only reading it tells for certain."""
        return os.path.lexists(self._link(name))

    def keep(self, name: str, data: bytes | memoryview) -> None:
        """Store the bytes under the name; quiet when another process has done so."""
        link = self._link(name)
        label = secrets.token_hex(4)
        fd = self._created(f"{link}.{label}")
        try:
            try:
                write_all(fd, data)
                facts = _Facts.of(label, os.fstat(fd))
            finally:
                os.close(fd)
            os.symlink(facts.text(), link)
        except BaseException as error:
            os.unlink(f"{link}.{label}")
            if not isinstance(error, FileExistsError):
                raise

    def new_file(self, name: str) -> Path:
        """Where to write a file that `vouch_for` then makes the one of that name."""
        link = self._link(name)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        return Path(f"{link}.{secrets.token_hex(4)}")

    def vouch_for(self, name: str, file: Path) -> None:
        link = self._link(name)
        file.chmod(_READ_ONLY)
        facts = _Facts.of(file.name.rpartition(".")[2], file.stat())
        with suppress(FileNotFoundError):
            os.unlink(link)
        os.symlink(facts.text(), link)

    def forget(self, name: str) -> None:
        """Quiet when it is not here."""
        link = self._link(name)
        with suppress(OSError):
            self._forget(link, _Facts.parsed(os.readlink(link)))

    def _link(self, name: str) -> str:
        return f"{self._root}/{name[:2]}/{name}"

    def _created(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, _READ_ONLY)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path, flags, _READ_ONLY)

    def _opened(self, link: str, facts: _Facts) -> int | None:
        try:
            fd = os.open(f"{link}.{facts.label}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        if facts.hold_of(os.fstat(fd)):
            return fd
        os.close(fd)
        return None

    def _forget(self, link: str, facts: _Facts | None) -> None:
        with suppress(OSError):
            os.unlink(link)
        if facts:
            with suppress(OSError):
                os.unlink(f"{link}.{facts.label}")


def _mark_used(link: str) -> None:
    with suppress(OSError):
        if time.time() - os.lstat(link).st_mtime > _TOUCH_SECONDS:
            os.utime(link, follow_symlinks=False)
