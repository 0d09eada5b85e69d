import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8  # of glibc's malloc.h


def share_heap() -> None:
    """Have all threads of this process allocate from one heap. Call it before other threads start.

    glibc gives threads heaps of their own, up to eight for each CPU, and each keeps what its busiest moment took.
    Threads of Python seldom allocate at the same time. Does nothing with another C library.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
