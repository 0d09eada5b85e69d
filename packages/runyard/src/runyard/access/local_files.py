"""Checks of local paths that a caller names: no path leads out of its root, not even through a symbolic link."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runyard.core.disk import lies_in
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.names import check_relative_path
from runyard.core.records.files import AllowedFolders
from runyard.core.records.launch_plan import node_task_name
from runyard.core.records.runs import AttemptId
from runyard.core.run_folders import SCRIPT_FOLDERS, task_folder_name

_MOST_NODES = 1024


def inside(root: Path, relative: str, argument: str) -> Path:
    """Path below `root`, which need not exist. Raises InvalidArgument if it leads out of `root`."""
    path = root / check_relative_path(relative, argument)
    if not lies_in(path, root):
        raise InvalidArgument(f"{argument} {relative!r} leads out of its folder through a link.")
    return path


def real_path(path: str, argument: str) -> Path:
    """Absolute path with symbolic links resolved. Raises InvalidArgument for a relative path."""
    if "\0" in path or not os.path.isabs(path):
        raise InvalidArgument(f"{argument} must be an absolute path, got {path!r}.")
    return Path(os.path.realpath(path))


def script_folder(attempts: Sequence[Path], attempt_id: AttemptId, path: Path, argument: str) -> Path:
    """Folder, among those that the attempt's script writes to on any of its nodes, that holds the resolved path.

    Raises InvalidArgument for any other path, such as one of another attempt or a private file of this one.
    """
    roots = [Path(os.path.realpath(one)) for one in attempts]
    root = next((one for one in roots if path.is_relative_to(one)), roots[0])
    below = path.relative_to(root).parts if path.is_relative_to(root) else ()
    if len(below) < 2 or below[1] not in SCRIPT_FOLDERS or not _is_part(below[0], attempt_id):
        raise InvalidArgument(
            f"{argument} {str(path)!r} is in no folder that the script of attempt {attempt_id} writes to.",
            hint="Send the files themselves.",
        )
    return Path(root, *below[:2])


def script_files(
    attempts: Sequence[Path], attempt_id: AttemptId, paths: Sequence[str], argument: str
) -> tuple[list[Path], AllowedFolders]:
    """Files that a script names by absolute paths, and the check to repeat once they are open."""
    found = [real_path(path, argument) for path in paths]
    folders = {script_folder(attempts, attempt_id, path, argument) for path in found}
    return found, AllowedFolders(tuple(folders), refuses_hard_links=True)


def plain_files(root: Path, relatives: Iterable[str]) -> Iterator[tuple[str, Path, int]]:
    """Yield (relative path, resolved path, mode) of each regular file. Missing files and links out of `root` are
    left out."""
    for relative in relatives:
        normal = check_relative_path(relative, "path")
        path = Path(os.path.realpath(root / normal))
        try:
            found = path.lstat()
        except OSError as problem:
            if problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG):
                continue
            raise
        if stat.S_ISREG(found.st_mode) and lies_in(path, root):
            yield normal, path, stat.S_IMODE(found.st_mode) & 0o777


def named_file(path: str, argument: str) -> Path:
    """Check an absolute path to a regular file, for a caller who may read all. Raises InvalidArgument, NotFound."""
    if "\0" in path or not os.path.isabs(path):
        raise InvalidArgument(f"{argument} must be an absolute path, got {path!r}.")
    if not os.path.isfile(path):
        raise NotFound(f"There is no file {path!r}.", hint=f"Check {argument}.")
    return Path(path)


def _is_part(name: str, attempt_id: AttemptId) -> bool:
    return any(name == task_folder_name(node_task_name(attempt_id, node)) for node in range(_MOST_NODES))
