"""Parent process of the gateway: forks it and restarts it when it is killed, whether or not the service runs.

The parent has imported the gateway's code, so a restart is a fork and takes milliseconds. It holds the gateway's lock
file, so nobody else starts a gateway in between.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

_STABLE_SECONDS = 10.0
"""A child that lived longer is restarted without a pause."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


def restart_when_killed(serve: Callable[[int | None], int], ready_fd: int | None, is_wanted: Callable[[], bool]) -> int:
    """Run `serve` in a child, restart it when it is killed, and return its exit code.

    Ends when a child exits with 0, or `is_wanted` returns False. The first child gets `ready_fd` and is not restarted
    when it exits with an error: the process that waits at the descriptor reports that.
    """
    loop = _RestartLoop(serve, is_wanted)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, loop.forward_signal)
    return loop.run(ready_fd)


class _RestartLoop:
    def __init__(self, serve: Callable[[int | None], int], is_wanted: Callable[[], bool]) -> None:
        self._serve, self._is_wanted = serve, is_wanted
        self._child, self._is_exiting = 0, False

    def forward_signal(self, number: int, _: FrameType | None) -> None:
        self._is_exiting = True
        if self._child:
            os.kill(self._child, number)

    def run(self, ready_fd: int | None) -> int:
        code, pause = self._run_child(ready_fd), 0.0
        if code > 0:
            return code
        while code != 0 and not self._is_exiting and self._is_wanted():
            time.sleep(pause)
            began = time.monotonic()
            code = self._run_child(None)
            is_stable = time.monotonic() - began > _STABLE_SECONDS
            pause = 0.0 if is_stable else min(max(_FIRST_PAUSE_SECONDS, pause * 2), _LONGEST_PAUSE_SECONDS)
        return max(code, 0)

    def _run_child(self, ready_fd: int | None) -> int:
        """Fork, wait, and return the exit code; negative for the signal that ended the child."""
        self._child = os.fork()
        if self._child == 0:
            self._serve_and_exit(ready_fd)
        if ready_fd is not None:
            os.close(ready_fd)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        return os.waitstatus_to_exitcode(status)

    def _serve_and_exit(self, ready_fd: int | None) -> None:
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            code = self._serve(ready_fd)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
