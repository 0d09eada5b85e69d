import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runyard.errors import DataFailed, StorageFull

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHOWN_CHARACTERS = 300


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn an OSError of the block into StorageFull or DataFailed that name the target."""
    try:
        yield
    except OSError as error:
        shown = repr(str(target)[:_SHOWN_CHARACTERS])
        if error.errno in _FULL:
            hint = "Free space (`runyard gc`, `runyard du`) and try again."
            raise StorageFull(f"There is no room on the disk for {shown}.", hint=hint) from error
        raise DataFailed(f"{shown} cannot be written: {error.strerror}.", hint="Choose another target.") from error


@contextmanager
def written_beside(target: Path) -> Iterator[int]:
    """Descriptor of a new file that replaces `target` at the end of the block. Removed after an error."""
    beside = str(target.parent / f".runyard-{secrets.token_hex(8)}.new")
    with writing(target):
        fd = _created(beside, target.parent)
        try:
            try:
                yield fd
            finally:
                os.close(fd)
            os.replace(beside, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise


def _created(path: str, folder: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o666)
