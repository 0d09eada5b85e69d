import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.core.disk import is_disk_full
from runyard.core.errors import AccessDenied, DataFailed, InvalidArgument, NotFound, StorageFull
from runyard.core.names import quoted_text
from runyard.core.umask import give_to_users
from runyard.data.datastores.paths import already_exists

# Without O_NONBLOCK, opening a FIFO would wait for a writer.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_STAT = os.O_PATH | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FolderRoot:
    """Opens files and folders below one folder, and nothing outside it, whatever symbolic links are on the way.

    After each open the kernel is asked (/proc/self/fd) where the file really is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = os.path.realpath(folder)

    @contextmanager
    def open_file(self, path: str) -> Iterator[int]:
        """Open a regular file for reading."""
        with self._opened(path, _READ) as fd:
            _check_regular(path, os.fstat(fd))
            yield fd

    def stat(self, path: str) -> os.stat_result:
        """Stat a regular file."""
        with self._opened(path, _STAT) as fd:
            facts = os.fstat(fd)
            _check_regular(path, facts)
            return facts

    @contextmanager
    def open_folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """Open a folder, '' for the root itself. With `make`, create it and its parents where missing."""
        if make:
            self._make(path)
        with self._opened(path, _FOLDER) as fd:
            yield fd

    def contains(self, place: str) -> bool:
        """Whether an absolute path, links followed, is below the root."""
        return self._is_inside(os.path.realpath(place))

    @contextmanager
    def explained(self, path: str) -> Iterator[None]:
        """Turn an OSError of the block into an error that names the path."""
        try:
            yield
        except OSError as error:
            raise self.explain(path, error) from error

    def explain(self, path: str, error: OSError) -> Exception:
        """Return the error for an OSError at that path."""
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            if not self.folder.is_dir():
                return self._gone()
            return NotFound(f"There is no file {quoted_text(path)} in {str(self.folder)!r}.", hint="Check its path.")
        if error.errno == errno.EEXIST:
            return already_exists(path)
        if error.errno == errno.EISDIR:
            return InvalidArgument(f"{quoted_text(path)} is a folder.", hint="Choose another path for the file.")
        if error.errno == errno.ENAMETOOLONG:
            return InvalidArgument(f"path {quoted_text(path)} is too long for the disk.", hint="Choose a shorter path.")
        if error.errno == errno.ELOOP:
            return InvalidArgument(f"{quoted_text(path)} is a link that leads back to itself.", hint="Remove the link.")
        if is_disk_full(error):
            return StorageFull(f"The disk of {str(self.folder)!r} is full.", hint="Free space on it and try again.")
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return AccessDenied(
                f"{quoted_text(path)} in {str(self.folder)!r} may not be used: {error.strerror}.",
                hint="Check the permissions of the folder.",
            )
        return DataFailed(f"The disk failed at {quoted_text(path)} in {str(self.folder)!r}: {error.strerror}.")

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        try:
            fd = os.open(f"{self.real}/{path}", flags)
        except OSError as error:
            raise self.explain(path, error) from error
        try:
            if not self._is_inside(os.readlink(f"/proc/self/fd/{fd}")):
                raise self.leads_out(path)
            yield fd
        finally:
            os.close(fd)

    def _is_inside(self, real: str) -> bool:
        return real == self.real or real.startswith(self.real.rstrip("/") + "/")

    def _make(self, path: str) -> None:
        """Create folders level by level, so that none is created behind a link that leads out."""
        if os.path.isdir(f"{self.real}/{path}"):
            return
        if not self.folder.is_dir():
            raise self._gone()
        parent, _, name = path.rpartition("/")
        with self.open_folder(parent, make=True) as fd, self.explained(path):
            try:
                os.mkdir(name, dir_fd=fd)
                _give_to_users(name, fd)
            except FileExistsError:
                if not os.path.isdir(f"{self.real}/{path}"):
                    raise InvalidArgument(
                        f"{quoted_text(path)} is a file: no file can lie in it.", hint="Choose another path."
                    ) from None
            else:
                os.fsync(fd)

    def _gone(self) -> NotFound:
        return NotFound(f"The folder {str(self.folder)!r} is not there.", hint="Is its disk or share mounted?")

    def leads_out(self, path: str) -> AccessDenied:
        return AccessDenied(
            f"{quoted_text(path)} is a link that leads out of {str(self.folder)!r}.",
            hint="Copy what it leads to into the folder, or register the other folder too.",
        )


def _check_regular(path: str, facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise NotFound(f"{quoted_text(path)} is a folder, not a file.", hint="Give the path of a file in it.")
    if not stat.S_ISREG(facts.st_mode):
        raise InvalidArgument(
            f"{quoted_text(path)} is a pipe, socket or device, not a file.", hint="Give a regular file."
        )


def _give_to_users(name: str, parent: int) -> None:
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        give_to_users(made)
    finally:
        os.close(made)
