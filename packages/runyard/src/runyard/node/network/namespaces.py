"""System calls for network namespaces; Python has them from 3.12 on."""

import ctypes
import os
from pathlib import Path

from runyard.core.namespaces import NEW_NETWORK, unshare

_libc = ctypes.CDLL(None, use_errno=True)
_CAPABILITY_VERSION_3 = 0x20080522


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def unshare_network() -> None:
    """Move this process into a new, empty network namespace. OSError where that is not allowed."""
    unshare(NEW_NETWORK)


def drop_capabilities() -> None:
    """Drop all capabilities, so that a process without them may read this one in /proc."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(none)))


def open_network_of(pid: int) -> tuple[int, ...]:
    """Open the namespaces of a process, for `enter`. OSError when it is gone or another user's."""
    kinds = ("net",) if os.geteuid() == 0 else ("user", "net")
    found: list[int] = []
    try:
        for kind in kinds:
            found.append(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC))
    except BaseException:
        for descriptor in found:
            os.close(descriptor)
        raise
    return tuple(found)


def enter(descriptors: tuple[int, ...]) -> None:
    """Move this process into those namespaces; it must have one thread. OSError where that is not allowed."""
    for descriptor in descriptors:
        _checked(_libc.setns(descriptor, 0))


def has_identity_of_its_own() -> bool:
    """Tell whether this process of an ordinary user is in a user namespace of one user: then it can join no other."""
    if os.geteuid() == 0:
        return False
    return [line.split()[2] for line in Path("/proc/self/uid_map").read_text(encoding="utf-8").splitlines()] == ["1"]


def _checked(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
