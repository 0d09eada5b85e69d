"""Which processes ask. The kernel names the thread, in the numbers of the mount's own PID namespace."""

import os

_SIGKILL_BIT = 1 << 8


def process_of(thread: int) -> int:
    """The process of a thread; the thread itself where nothing is known of it."""
    return _status(thread).get("Tgid", thread)


def is_thread_of(thread: int, process: int) -> bool:
    return os.path.exists(f"/proc/{process}/task/{thread}")


def is_being_killed(thread: int) -> bool:
    """Whether it is gone, or on its way."""
    status = _status(thread)
    return not status or bool((status["SigPnd"] | status["ShdPnd"]) & _SIGKILL_BIT)


def _status(thread: int) -> dict[str, int]:
    bases = {"Tgid": 10, "SigPnd": 16, "ShdPnd": 16}
    try:
        with open(f"/proc/{thread}/status", encoding="utf-8", errors="replace") as status:
            rows = [line.split(":", 1) for line in status]
    except OSError:
        return {}
    return {name: int(value, bases[name]) for name, value in rows if name in bases}
