"""The home folder of a service: checks, permissions, and the folders that runs enter."""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from runyard.core.errors import Conflict, InvalidArgument, RunyardError, StorageFull
from runyard.core.run_folders import RUN_FOLDERS, SCRIPTS
from runyard.core.umask import PRIVATE
from runyard_sdk.home import why_not_ours

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs", "9p", "gpfs", "beegfs", "pvfs2"}
)
MIN_FREE_BYTES = 64 * 1024 * 1024
RESTORING = "restoring"
"""File that marks a home whose restore has not finished."""
_PRIVATE_PATTERNS = (
    "attempts/*",
    "attempts/*/*",
    "services/*",
    "services/*/*",
    "interactive/*",
    "interactive/*/*",
    "logs/*",
)
"""Deeper paths that hold secrets, besides the files of the home itself."""


def require_linux(platform: str = sys.platform) -> None:
    if platform != "linux":
        raise RunyardError(
            f"The Runyard service needs Linux; this is {platform}.",
            hint="Set RUNYARD_URL and RUNYARD_TOKEN to a service on a Linux machine.",
        )


def require_own_home(home: Path) -> None:
    """Raise InvalidArgument where the folder is another user's, or others could replace it. It need not exist."""
    refusal = why_not_ours(str(home))
    if refusal is not None:
        raise InvalidArgument(refusal[0], hint=refusal[1])


def prepare_home(home: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> None:
    """Create the folder, readable by its owner only. Raises InvalidArgument for another user's folder, and on a network
    file system, where locks are unreliable."""
    require_own_home(home)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidArgument(
            f"The home {home} cannot be made: {problem.strerror}.", hint="Set RUNYARD_HOME to a folder of your own."
        ) from None
    if not os.access(home, os.W_OK | os.X_OK):
        raise InvalidArgument(
            f"The home {home} cannot be written to.", hint="Set RUNYARD_HOME to a folder of your own."
        )
    kind = file_system_of(Path(os.path.realpath(home)), mountinfo.read_text(errors="surrogateescape"))
    if is_networked(kind):
        raise InvalidArgument(
            f"The home {home} is on a network file system ({kind}), where a database is not safe.",
            hint="Set RUNYARD_HOME to a folder on a disk of this machine.",
        )


def make_private(home: Path) -> bool:
    """Remove the permissions of other users in an existing home; return whether they could look into it."""
    was_open = bool(home.stat().st_mode & PRIVATE)
    os.chmod(home, 0o700)
    for pattern in ("*", *_PRIVATE_PATTERNS) if was_open else ("*",):
        for path in home.glob(pattern):
            with suppress(FileNotFoundError):  # a run may end at this moment
                mode = path.lstat().st_mode
                if mode & PRIVATE and not stat.S_ISLNK(mode) and path.name not in RUN_FOLDERS:
                    path.chmod(stat.S_IMODE(mode) & ~PRIVATE)
    return was_open


def link_run_folders(home: Path, root: Path | None) -> None:
    """Link the folders that runs enter to `root`; None leaves them as they are.

    Raises InvalidArgument while the present folders are in use, and for a root of another home or user.
    """
    if root is None:
        return
    for name in RUN_FOLDERS:
        link, target = home / name, Path(os.path.realpath(root)) / name
        _make_run_folder(target)
        if link.is_symlink() and Path(os.readlink(link)) == target:
            continue
        try:
            if not link.is_symlink():
                link.rmdir()
            elif name == SCRIPTS and any(link.iterdir()):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
            link.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise InvalidArgument(
                f"RUNYARD_RUN_ROOT is {str(root)!r}, and {link} is still in use: {problem.strerror}.",
                hint="Wait for the runs that go on, then move that folder away; environments are built again.",
            ) from None
        link.symlink_to(target)


def _make_run_folder(folder: Path) -> None:
    refusal = why_not_ours(str(folder.parent))
    if refusal is not None:
        raise InvalidArgument(
            f"RUNYARD_RUN_ROOT cannot be used. {refusal[0]}".replace("The home", "The folder"),
            hint="Set RUNYARD_RUN_ROOT to a folder of your own, on a disk of this machine.",
        )
    try:
        for one in (folder.parent, folder):
            one.mkdir(parents=True, exist_ok=True)
            one.chmod(0o711)  # others may enter by name but not list it
    except OSError as problem:
        raise InvalidArgument(f"RUNYARD_RUN_ROOT: {folder} cannot be made: {problem.strerror}.") from None


def require_space(home: Path) -> None:
    """Raise StorageFull where the disk of the home is nearly full."""
    disk = os.statvfs(home)
    free = disk.f_bavail * disk.f_frsize
    if free < MIN_FREE_BYTES:
        raise StorageFull(
            f"The disk of {home} has {free >> 20} MB left; the service needs {MIN_FREE_BYTES >> 20}.",
            hint="Free some space, or set RUNYARD_HOME to a folder on another disk.",
        )


def require_restored(home: Path) -> None:
    """Raise Conflict for a home whose restore was interrupted."""
    if (home / RESTORING).exists():
        raise Conflict(
            f"The home {home} is not whole: its restore was cut.", hint="Run `runyard restore FOLDER` again."
        )


def require_no_content(home: Path) -> None:
    """Raise Conflict for a home that has files of runs. Called where the database is missing or new."""
    kept = next((part for part in ("blobs", "logs") if _has_content(home / part)), None)
    if kept is not None:
        raise Conflict(
            f"The home {home} has files of runs ({kept}/) and no database: it was deleted, or is not mounted.",
            hint="Bring it back, check RUNYARD_DATABASE_URL, or run `runyard restore FOLDER`. "
            "`runyard up --begin-anew` moves the files aside and begins with an empty history.",
        )


def _has_content(folder: Path) -> bool:
    """Whether the folder has a file `XX/NAME`: a blob or a log."""
    if not folder.is_dir():
        return False
    inner = (entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False) and entry.name != "incoming")
    return any(next(os.scandir(entry), None) is not None for entry in inner)


def is_networked(kind: str) -> bool:
    return kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse.ssh")


def file_system_of(folder: Path, mountinfo: str) -> str:
    """Type of the file system of a folder, from the text of /proc/self/mountinfo."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        mount = _unescaped(fields[4])
        # A later mount on the same point hides the earlier one.
        if folder.is_relative_to(mount) and len(Path(mount).parts) >= best:
            best, kind = len(Path(mount).parts), after.split(" ")[0]
    return kind


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
