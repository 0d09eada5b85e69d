"""Paths on this machine that come from outside: nothing leaves its root, not even through a symbolic link."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from runyard.errors import InvalidArgument, NotFound
from runyard.model.names import check_relative_path
from runyard.model.runs import AttemptId


def inside(root: Path, relative: str, argument: str) -> Path:
    """The path below `root`, whether or not it exists. Raises InvalidArgument if it leads elsewhere."""
    path = root / check_relative_path(relative, argument)
    if not _is_below(path, root):
        raise InvalidArgument(f"{argument} {relative!r} leads out of its folder through a link.")
    return path


def checked_root(folder: str, allowed: Path | None, argument: str) -> Path:
    """An absolute folder of this machine, and one below `allowed` where that is given."""
    if "\0" in folder or not os.path.isabs(folder):
        raise InvalidArgument(f"{argument} must be an absolute path, got {folder!r}.")
    root = Path(os.path.realpath(folder))
    if allowed is not None and not _is_below(root, allowed):
        raise InvalidArgument(
            f"{argument} {folder!r} is not below {str(allowed)!r}.", hint="Send the files themselves."
        )
    return root


def require_own_part(attempts: Path, attempt_id: AttemptId, folder: Path) -> None:
    """InvalidArgument for a folder that is not of that attempt, on whichever of its nodes."""
    below = folder.relative_to(os.path.realpath(attempts)).parts
    attempt, _, node = below[0].partition(f"{attempt_id}-") if below else ("", "", "")
    if not below or (below[0] != attempt_id and not (attempt == "" and node.isdigit())):
        raise InvalidArgument(f"{str(folder)!r} is not a folder of attempt {attempt_id}.")


def plain_files(root: Path, relatives: Iterable[str]) -> Iterator[tuple[str, Path, int]]:
    """(path, where it lies, mode) of those that are plain files now. What vanished or links out is left out."""
    for relative in relatives:
        normal = check_relative_path(relative, "path")
        path = Path(os.path.realpath(root / normal))
        try:
            found = path.lstat()
        except OSError as problem:
            if problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
                continue
            raise
        if stat.S_ISREG(found.st_mode) and _is_below(path, root):
            yield normal, path, stat.S_IMODE(found.st_mode) & 0o777


def plain_file(path: str, allowed: Path | None, argument: str) -> Path:
    """One absolute path that must be a plain file. Raises InvalidArgument or NotFound."""
    found = checked_root(path, allowed, argument)
    if not found.is_file():
        raise NotFound(f"There is no file {path!r}.", hint=f"Check {argument}.")
    return found


def named_file(path: str, argument: str) -> Path:
    """One absolute path that leads to a plain file, for somebody who may read any. Raises InvalidArgument, NotFound."""
    if "\0" in path or not os.path.isabs(path):
        raise InvalidArgument(f"{argument} must be an absolute path, got {path!r}.")
    if not os.path.isfile(path):
        raise NotFound(f"There is no file {path!r}.", hint=f"Check {argument}.")
    return Path(path)


def _is_below(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
