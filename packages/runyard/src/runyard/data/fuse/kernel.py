"""System calls for mounts, through ctypes: without mount(8) a mount takes microseconds and works for any user.

Never delete files below a mount that was left behind: they are the user's data. Unmount it.
"""

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

from runyard.core.namespaces import NEW_MOUNTS, unshare

_libc = ctypes.CDLL(None, use_errno=True)

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SLAVE = 0x20, 0x1000, 0x4000, 0x40000, 0x80000
_KEPT_OPTIONS = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "relatime": 0x200000,
}
_MNT_DETACH, _UMOUNT_NOFOLLOW = 0x2, 0x8
_CAP_SYS_ADMIN = 21
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_FUSERMOUNT_SECONDS = 10


def mount(source: str | Path, target: str | Path, kind: str, flags: int, options: str = "") -> None:
    """Call mount(2). Raises OSError that names the target."""
    made = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options)
    )
    _checked(made, target)


def bind(source: Path, target: Path, *, read_only: bool) -> None:
    """Bind-mount a folder or a file at `target`, which is created if missing.

    Includes file systems mounted below the source, read-only too, but none that are mounted later. nosuid and nodev.
    After an OSError nothing is mounted.
    """
    _make_mount_point(source, target)
    mount(source, target, "none", _MS_BIND | _MS_REC)
    try:
        # Without this, unmounting below the target would unmount below the source as well.
        _set_propagation(target, _MS_PRIVATE)
        flags = MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0)
        for point, options in _mountinfo():
            if _is_below(point, _real(target)):
                kept = sum(_KEPT_OPTIONS.get(option, 0) & ~flags for option in options)
                mount("none", point, "none", _MS_REMOUNT | _MS_BIND | flags | kept)
    except BaseException:
        unmount(target)
        raise


def unshare_mounts() -> bool:
    """Give this process and its children a mount namespace of their own. Its mounts end with the last process.

    Returns False, with nothing changed, where that is not allowed. Call it while the process has one thread. A user
    without privileges also gets a user namespace, in which the user id stays the same.
    """
    child = os.fork()
    if child == 0:  # Tried in a child: a failure half-way would leave this process without its user id.
        try:
            _unshare()
        except BaseException:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        return False
    try:
        _unshare()
    except OSError:
        return False
    return True


def unmount(path: Path) -> None:
    """Unmount `path` at once, also if it is in use or its server is dead. Quiet if nothing is mounted."""
    if _libc.umount2(os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW) == 0:
        return
    program = shutil.which("fusermount3")
    if program is not None and path in mounts_below(path):
        # Output is dropped: it may name folders of other users.
        subprocess.run(
            [program, "-u", "-z", "--", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_FUSERMOUNT_SECONDS,
            check=False,
        )


def mounts_below(root: Path) -> list[Path]:
    """Mount points at or below a folder, outer ones first. Reads mountinfo only, so a dead mount cannot block it."""
    real = _real(root)
    return [Path(root, os.path.relpath(point, real)) for point, _ in _mountinfo() if _is_below(point, real)]


def sweep(root: Path) -> list[Path]:
    """Unmount everything at and below `root`, and remove the mount points: empty folders, links and empty files.

    Returns what is still mounted; then nothing is removed. Not for a running attempt: removing a mount point unmounts
    it in other namespaces too.
    """
    for point in reversed(mounts_below(root)):
        unmount(point)
    left = mounts_below(root)
    if not left:
        _remove_mount_points(root)
    return left


def why_no_fuse() -> str:
    """One sentence on why this process cannot use FUSE mounts; "" if it can."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return "This machine has no /dev/fuse."
    except OSError as error:
        return f"/dev/fuse cannot be opened ({error.strerror})."
    if not may_mount() and shutil.which("fusermount3") is None:
        return "This user may not mount, and the program fusermount3 (of the package fuse3) is not there to do it."
    return ""


def may_mount() -> bool:
    """Whether this process may call mount(2): as root, or as owner of its namespace (CAP_SYS_ADMIN)."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def _make_mount_point(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch(exist_ok=True)


def _remove_mount_points(root: Path) -> None:
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files + folders:
            with contextlib.suppress(OSError):
                entry = os.path.join(folder, name)
                if os.path.islink(entry) or (name in files and os.lstat(entry).st_size == 0):
                    os.unlink(entry)
                elif name in folders:
                    os.rmdir(entry)
    with contextlib.suppress(OSError):
        os.rmdir(root)


def _unshare() -> None:
    unshare(NEW_MOUNTS)
    # Slave, not private: disks that the machine mounts later appear here as well.
    _set_propagation("/", _MS_SLAVE)


def _set_propagation(target: str | Path, kind: int) -> None:
    mount("none", target, "none", kind | _MS_REC)


def _mountinfo() -> list[tuple[str, list[str]]]:
    with open("/proc/self/mountinfo", "rb") as table:
        rows = [line.split(b" ") for line in table]
    return [(os.fsdecode(_ESCAPED.sub(_unescaped, row[4])), row[5].decode().split(",")) for row in rows]


def _unescaped(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])


def _real(path: Path) -> str:
    """Real path, resolved without touching the mount itself, which may be dead."""
    return os.path.join(os.path.realpath(path.parent), path.name)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _checked(result: int, path: str | Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
