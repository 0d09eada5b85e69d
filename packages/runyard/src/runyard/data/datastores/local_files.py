"""Files on local disk that appear whole or not at all, also when their writer is killed.

`replacement` of core leaves its file behind when the writer is killed, and takes less than half the time."""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runyard.core.umask import give_to_users

_NAME = re.compile(r"\.runyard-[0-9a-f]{32}\.part")
_NO_O_TMPFILE = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
_NO_LINKS = frozenset({errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS, errno.EMLINK})


def is_temporary_name(name: str) -> bool:
    """Whether the name is that of a temporary file: still being written, or left by a killed writer."""
    return _NAME.fullmatch(name) is not None


class AtomicFile:
    """New file in an open folder, without a visible name until `replace` or `create`. Write its content to `fd`."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._name = ""
        try:
            self.fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=folder)
        except OSError as error:
            if error.errno not in _NO_O_TMPFILE:
                raise
            self._name = _fresh_name()
            self.fd = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=folder)
        give_to_users(self.fd)

    def replace(self, name: str) -> None:
        """Give the file its name, in place of any file that has it."""
        if not self._name:
            unfinished = _fresh_name()
            os.link(f"/proc/self/fd/{self.fd}", unfinished, dst_dir_fd=self._folder)
            self._name = unfinished
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = ""

    def create(self, name: str) -> None:
        """Give the file its name. Raises FileExistsError if the name is taken."""
        if not self._name:
            os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._folder)
            return
        try:
            os.link(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # No hard links here, as on a Windows share: of two writers at the same instant both may succeed.
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
            self.replace(name)

    def discard(self) -> None:
        """Close the file, and remove it if it has not got its name."""
        os.close(self.fd)
        if self._name:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)


@contextmanager
def atomic_file_in(folder: int) -> Iterator[AtomicFile]:
    """New file in an open folder. Leaving the block removes it unless it got its name."""
    file = AtomicFile(folder)
    try:
        yield file
    finally:
        file.discard()


@contextmanager
def atomic_file_beside(target: Path) -> Iterator[AtomicFile]:
    """New file in the folder of `target`."""
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with atomic_file_in(folder) as file:
            yield file
    finally:
        os.close(folder)


def _fresh_name() -> str:
    return f".runyard-{secrets.token_hex(16)}.part"
