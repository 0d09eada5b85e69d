"""FUSE messages of the kernel (linux/fuse.h), as far as a file server needs them."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct

ROOT_ID = 1
MAJOR, MINOR = 7, 31
OLDEST_MINOR = 23
"""Linux 3.15: from there on the reply to INIT has one layout."""
MIN_READ_BUFFER = 8192


class Op(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    GETXATTR = 22
    LISTXATTR = 23
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    READDIRPLUS = 44
    RENAME2 = 45


class InitFlag(IntFlag):
    """Capability flags of INIT (FUSE_ASYNC_READ ...)."""

    ASYNC_READ = 1 << 0
    BIG_WRITES = 1 << 5
    DO_READDIRPLUS = 1 << 13
    NO_OPEN_SUPPORT = 1 << 17
    PARALLEL_DIROPS = 1 << 18
    ABORT_ERROR = 1 << 21
    MAX_PAGES = 1 << 22
    CACHE_SYMLINKS = 1 << 23
    NO_OPENDIR_SUPPORT = 1 << 24


class OpenFlag(IntFlag):
    KEEP_CACHE = 1 << 1
    NO_FLUSH = 1 << 5


class SetattrField(IntFlag):
    """Which fields of SETATTR to set (FATTR_MODE ...)."""

    MODE = 1 << 0
    SIZE = 1 << 3
    MTIME = 1 << 5
    MTIME_NOW = 1 << 8


class RenameFlag(IntFlag):
    NO_REPLACE = 1 << 0


IN_HEADER = Struct("=IIQQIIII")
OUT_HEADER = Struct("=IiQ")
INIT_IN = Struct("=IIII")
INIT_OUT = Struct("=IIIIHHIIHHI28x")
ATTR = Struct("=6Q10I")
ENTRY_OUT_HEAD = Struct("=4QII")
ATTR_OUT_HEAD = Struct("=QII")
SETATTR_IN = Struct("=II6Q8I")
OPEN_IN = Struct("=II")
OPEN_OUT = Struct("=QII")
CREATE_IN = Struct("=IIII")
MKDIR_IN = Struct("=II")
RENAME_IN = Struct("=Q")
RENAME2_IN = Struct("=QII")
READ_IN = Struct("=QQI")
WRITE_IN = Struct("=QQIIQII")
WRITE_OUT = Struct("=II")
HANDLE_IN = Struct("=Q")
FORGET_IN = Struct("=Q")
BATCH_FORGET_IN = Struct("=II")
FORGET_ONE = Struct("=QQ")
INTERRUPT_IN = Struct("=Q")
STATFS_OUT = Struct("=5Q4I24x")
DIRENT = Struct("=QQII")

_PADDING = tuple(b"\0" * ((8 - length % 8) % 8) for length in range(8))


@dataclass(slots=True)
class FuseRequest:
    """One message of the kernel. `body` is overwritten by the next message: copy what is kept."""

    op: int
    unique: int
    node: int
    pid: int
    body: memoryview

    def names(self, after: int = 0) -> list[bytes]:
        """NUL-terminated names that follow a fixed part of `after` bytes."""
        return bytes(self.body[after:]).split(b"\0")[:-1]


def attributes(*, node: int, mode: int, size: int, modified_ns: int, owner: tuple[int, int], links: int = 1) -> bytes:
    seconds, rest = divmod(modified_ns, 1_000_000_000)
    blocks = (size + 511) // 512
    times = (seconds, seconds, seconds, rest, rest, rest)
    return ATTR.pack(node, size, blocks, *times, mode, links, *owner, 0, 4096, 0)


def entry(node: int, attributes: bytes, *, name_seconds: int, attribute_seconds: int) -> bytes:
    return ENTRY_OUT_HEAD.pack(node, 0, name_seconds, attribute_seconds, 0, 0) + attributes


NO_ENTRY = bytes(ENTRY_OUT_HEAD.size + ATTR.size)
"""In READDIRPLUS: a name without attributes."""


def directory_entry(node: int, name: bytes, mode: int, next_offset: int) -> bytes:
    head = DIRENT.pack(node, next_offset, len(name), mode >> 12)
    return head + name + _PADDING[len(name) % 8]
