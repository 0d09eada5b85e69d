import ctypes
import multiprocessing
import os
import traceback
from collections.abc import Callable
from typing import Any

NOBODY = 65534
_PR_SET_DUMPABLE = 4


def in_child(work: Callable[[], None], *, user: int = 0) -> None:
    """Run it in a process of its own, as that user; fails where it failed."""

    def told() -> bool:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            raise
        return True

    assert ended_well(told, user=user)


def ended_well(work: Callable[[], bool], *, user: int = 0) -> bool:
    """Run it in a process of its own, as that user; whether it returned True."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if user:
                _become(user)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def in_new_program(work: Callable[..., None], *arguments: Any) -> None:
    """Run a function of a module in a fresh interpreter: clients of object stores do not survive a fork."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    try:
        process.join()
    finally:
        process.kill()
    assert process.exitcode == 0


def _become(user: int) -> None:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    # As after an exec: else the process may not write its own files in /proc.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
