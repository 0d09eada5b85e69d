import array
import ctypes
import os
import shutil
import socket
import subprocess
from pathlib import Path

from runyard.mounting import kernel
from runyard.mounting.errors import MountUnavailable

_FUSERMOUNT_SECONDS = 30


def open_mount(mount_point: Path, name: str, *, read_only: bool) -> int:
    """Mount a FUSE file system and return the descriptor that its requests come from.

    By mount(2) where this process may, else by fusermount3. Only processes of this user see it.
    """
    reason = kernel.why_no_fuse()
    if reason:
        raise MountUnavailable(f"{name!r} cannot be mounted: {reason}")
    try:
        if kernel.may_mount():
            return _mounted_by_the_kernel(mount_point, read_only=read_only)
        return _mounted_by_fusermount(mount_point, read_only=read_only)
    except OSError as error:
        raise MountUnavailable(f"{name!r} cannot be mounted at {mount_point}: {error.strerror}.") from error


def raise_read_ahead(mount_point: Path, kibibytes: int) -> None:
    """Let the kernel read further ahead than its 128 KiB, in larger requests. Only root may; else nothing changes."""
    device = os.stat(mount_point).st_dev
    setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    try:
        setting.write_text(str(kibibytes), encoding="utf-8")
    except OSError:
        return


def _mounted_by_the_kernel(mount_point: Path, *, read_only: bool) -> int:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},default_permissions"
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | (kernel.MS_RDONLY if read_only else 0)
    try:
        kernel.mount("runyard", mount_point, "fuse.runyard", flags, options)
    except OSError:
        os.close(device)
        raise
    return device


def _mounted_by_fusermount(mount_point: Path, *, read_only: bool) -> int:
    """The program mounts as root and hands the descriptor over a socket, whose number it finds in a variable."""
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
            said = ended.stderr.decode("utf-8", "replace").strip() or f"fusermount3 ended with {ended.returncode}"
            raise OSError(0, said.rstrip("."))
        return _received(ours)


def _received(connection: socket.socket) -> int:
    room = socket.CMSG_SPACE(ctypes.sizeof(ctypes.c_int))
    _, ancillary, _, _ = connection.recvmsg(1, room)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors = array.array("i")
            descriptors.frombytes(data[: descriptors.itemsize])
            os.set_inheritable(descriptors[0], False)
            return descriptors[0]
    raise OSError(0, "fusermount3 handed no descriptor over")
