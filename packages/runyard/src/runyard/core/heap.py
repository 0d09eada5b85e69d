import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8  # of glibc's malloc.h


def share_heap() -> None:
    """Make all threads of this process allocate from one heap (malloc arena). Call it before other threads start.

    glibc gives threads up to eight arenas for each CPU, and each keeps its peak size. Python threads seldom allocate at
    the same time, because of the GIL. Does nothing with another C library.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
