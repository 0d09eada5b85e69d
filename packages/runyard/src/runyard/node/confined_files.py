"""Opens files that a script wrote without following a link out of their folder: we may read more than the script may.

The opened descriptor is checked, not the path: a path may lead somewhere else a moment later.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_beneath(path: Path, root: Path) -> int:
    """Open a regular file below `root` for reading; links may lead to it. Raises OSError for anything else.

    Only we may be able to replace `root` itself.
    """
    with _found_beneath(path, root) as place:
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)


def stat_beneath(path: Path, root: Path) -> os.stat_result:
    """Stat a file under the rules of `open_beneath`; it need not be readable."""
    with _found_beneath(path, root) as place:
        return os.fstat(place)


def is_file_beneath(path: Path, root: Path) -> bool:
    try:
        stat_beneath(path, root)
    except OSError:
        return False
    return True


def unlink_beneath(path: Path, root: Path) -> None:
    """Remove a file in `root` or below. Does nothing where it lies elsewhere, or is gone."""
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if _lies_beneath(folder, root):
            os.unlink(path.name, dir_fd=folder)
    except OSError:
        return
    finally:
        os.close(folder)


def open_to_everybody(folder: Path) -> None:
    """Make a folder writable for every user. Does nothing if it is a link or no folder."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fchmod(place, 0o777)
    finally:
        os.close(place)


@contextmanager
def _found_beneath(path: Path, root: Path) -> Iterator[int]:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode) or not _lies_beneath(place, root):
            raise PermissionError(f"{path} is no plain file below {root}")
        yield place
    finally:
        os.close(place)


def _lies_beneath(place: int, root: Path) -> bool:
    real, inside = os.path.realpath(root), os.readlink(f"/proc/self/fd/{place}")
    return inside == real or inside.startswith(real.rstrip("/") + "/")
