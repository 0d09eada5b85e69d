"""The gateway's parent: a process that does nothing but start it again when it was killed.

So a gateway comes back whether or not the service runs. The parent has loaded what the gateway is made of, so another
one is forked in milliseconds; it holds the gateway's lock, too, and nobody else starts one meanwhile.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

_CALM_SECONDS = 10.0
"""One that lived for so long is started again at once."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


def watch(serve: Callable[[int | None], int], ready_fd: int | None, is_wanted: Callable[[], bool]) -> int:
    """Run `serve` in a child until it ends by itself with 0, or `is_wanted` no longer; its exit code. The first one
    gets `ready_fd`, and is not started again when it fails: whoever waits at that descriptor hears of it."""
    keeper = _Watcher(serve, is_wanted)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, keeper.pass_on)
    return keeper.run(ready_fd)


class _Watcher:
    def __init__(self, serve: Callable[[int | None], int], is_wanted: Callable[[], bool]) -> None:
        self._serve, self._is_wanted = serve, is_wanted
        self._child, self._is_leaving = 0, False

    def pass_on(self, number: int, _: FrameType | None) -> None:
        self._is_leaving = True
        if self._child:
            os.kill(self._child, number)

    def run(self, ready_fd: int | None) -> int:
        code, pause = self._one(ready_fd), 0.0
        if code > 0:
            return code
        while code != 0 and not self._is_leaving and self._is_wanted():
            time.sleep(pause)
            began = time.monotonic()
            code = self._one(None)
            is_calm = time.monotonic() - began > _CALM_SECONDS
            pause = 0.0 if is_calm else min(max(_FIRST_PAUSE_SECONDS, pause * 2), _LONGEST_PAUSE_SECONDS)
        return max(code, 0)

    def _one(self, ready_fd: int | None) -> int:
        """Its exit code, below 0 for the signal that ended it."""
        self._child = os.fork()
        if self._child == 0:
            self._be_the_child(ready_fd)
        if ready_fd is not None:
            os.close(ready_fd)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        return os.waitstatus_to_exitcode(status)

    def _be_the_child(self, ready_fd: int | None) -> None:
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
