"""The kernel's own calls for network namespaces: Python has them only from 3.12 on."""

import ctypes
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def unshare_network() -> None:
    """Give this process a network of its own, with nothing in it. OSError where that is not allowed.

    Call it while the process has one thread. An ordinary user gets a user namespace in which he is himself.
    """
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_CLONE_NEWNET | (_CLONE_NEWUSER if user else 0)))
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="utf-8")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="utf-8")


def drop_capabilities() -> None:
    """This process has no privilege from now on, so that whoever has few may look at it."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(none)))


def open_network_of(pid: int) -> tuple[int, ...]:
    """Descriptors for `enter`. OSError when the process is gone or is another user's."""
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
    """Move this process, which has one thread, into those namespaces. OSError where that is not allowed."""
    for descriptor in descriptors:
        _checked(_libc.setns(descriptor, 0))


def has_identity_of_its_own() -> bool:
    """Whether this process, of an ordinary user, is alone in its user namespace: then it can join no other."""
    if os.geteuid() == 0:
        return False
    return [line.split()[2] for line in Path("/proc/self/uid_map").read_text(encoding="utf-8").splitlines()] == ["1"]


def _checked(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
