import array
import ctypes
import os
import shutil
import socket
import subprocess
from pathlib import Path

from runyard.data.fuse import kernel
from runyard.data.fuse.mounts import MountUnavailable

_FUSERMOUNT_SECONDS = 30


def open_mount(mount_point: Path, name: str, *, read_only: bool) -> int:
    """Mount a FUSE file system and return its descriptor of /dev/fuse.

    Uses mount(2) if this process may, else fusermount3. Only processes of this user can use the mount. Raises
    MountUnavailable.
    """
    reason = kernel.why_no_fuse()
    if reason:
        raise MountUnavailable(f"{name!r} cannot be mounted: {reason}")
    try:
        if kernel.may_mount():
            return _mount_directly(mount_point, read_only=read_only)
        return _mount_by_fusermount(mount_point, read_only=read_only)
    except OSError as error:
        raise MountUnavailable(f"{name!r} cannot be mounted at {mount_point}: {error.strerror}.") from error


def raise_read_ahead(mount_point: Path, kibibytes: int) -> None:
    """Set the read-ahead of the kernel (default 128 KiB), so that requests are larger. Does nothing without root."""
    device = os.stat(mount_point).st_dev
    setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    try:
        setting.write_text(str(kibibytes), encoding="utf-8")
    except OSError:
        return


def _mount_directly(mount_point: Path, *, read_only: bool) -> int:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},default_permissions"
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | (kernel.MS_RDONLY if read_only else 0)
    try:
        kernel.mount("runyard", mount_point, "fuse.runyard", flags, options)
    except OSError:
        os.close(device)
        raise
    return device


def _mount_by_fusermount(mount_point: Path, *, read_only: bool) -> int:
    """fusermount3 mounts as root and passes the descriptor over the socket that _FUSE_COMMFD names."""
    program = shutil.which("fusermount3") or ""
    options = "default_permissions,nosuid,nodev,fsname=runyard,subtype=runyard" + (",ro" if read_only else "")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        ended = subprocess.run(
            [program, "-o", options, "--", str(mount_point)],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FUSERMOUNT_SECONDS,
            check=False,
        )
        theirs.close()
        if ended.returncode != 0:
            problem = ended.stderr.decode("utf-8", "replace").strip() or f"fusermount3 ended with {ended.returncode}"
            raise OSError(0, problem.rstrip("."))
        return _receive_descriptor(ours)


def _receive_descriptor(connection: socket.socket) -> int:
    room = socket.CMSG_SPACE(ctypes.sizeof(ctypes.c_int))
    _, ancillary, _, _ = connection.recvmsg(1, room)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors = array.array("i")
            descriptors.frombytes(data[: descriptors.itemsize])
            os.set_inheritable(descriptors[0], False)
            return descriptors[0]
    raise OSError(0, "fusermount3 handed no descriptor over")
