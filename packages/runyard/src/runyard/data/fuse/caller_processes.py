"""Processes behind FUSE requests. The kernel names the thread, numbered in the PID namespace of the mount."""

import os

_SIGKILL_BIT = 1 << 8


def process_of(thread: int) -> int:
    """Process of a thread; the thread id itself if the thread is gone."""
    return _status(thread).get("Tgid", thread)


def is_thread_of(thread: int, process: int) -> bool:
    return os.path.exists(f"/proc/{process}/task/{thread}")


def is_being_killed(thread: int) -> bool:
    """Whether the thread is gone, or has a pending SIGKILL."""
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
