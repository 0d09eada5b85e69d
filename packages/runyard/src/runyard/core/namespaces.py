"""The system call unshare; Python has it from 3.12 on."""

import ctypes
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWUSER = 0x10000000
NEW_MOUNTS, NEW_NETWORK = 0x20000, 0x40000000


def unshare(kind: int) -> None:
    """Move this process into a new namespace of that kind. OSError where that is not allowed.

    The process must have one thread. An ordinary user gets a user namespace too, with the same user id.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(kind | (_CLONE_NEWUSER if user else 0)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="utf-8")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="utf-8")
