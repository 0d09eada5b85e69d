"""Files on their way in: nobody sees them before they are whole, and a killed writer leaves nothing to see."""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runyard.umask import give_to_users

_NAME = re.compile(r"\.runyard-[0-9a-f]{32}\.part")
_NO_NAMELESS_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
_NO_LINKS = frozenset({errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS, errno.EMLINK})


def is_unfinished(name: str) -> bool:
    """Whether a file of that name is one that is being written, or was when its writer was killed."""
    return _NAME.fullmatch(name) is not None


class Unfinished:
    """A new file in an open folder. `fd` is there to be written to."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._name = ""
        try:
            self.fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=folder)
        except OSError as error:
            if error.errno not in _NO_NAMELESS_FILES:
                raise
            self._name = _fresh_name()
            self.fd = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=folder)
        give_to_users(self.fd)

    def replace(self, name: str) -> None:
        """Give it that name, whoever had it."""
        if not self._name:
            unfinished = _fresh_name()
            os.link(f"/proc/self/fd/{self.fd}", unfinished, dst_dir_fd=self._folder)
            self._name = unfinished
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = ""

    def create(self, name: str) -> None:
        """Give it that name; FileExistsError when another has it."""
        if not self._name:
            os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._folder)
            return
        try:
            os.link(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A file system without links, such as a Windows share: two writers in the same instant may both succeed.
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
            self.replace(name)

    def discard(self) -> None:
        """Close it, and remove what has not got its name."""
        os.close(self.fd)
        if self._name:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)


@contextmanager
def unfinished_in(folder: int) -> Iterator[Unfinished]:
    """Leaving the block removes it unless it was given its name."""
    file = Unfinished(folder)
    try:
        yield file
    finally:
        file.discard()


@contextmanager
def unfinished_beside(target: Path) -> Iterator[Unfinished]:
    """One in the folder of a local file that is to be."""
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with unfinished_in(folder) as file:
            yield file
    finally:
        os.close(folder)


def _fresh_name() -> str:
    return f".runyard-{secrets.token_hex(16)}.part"
