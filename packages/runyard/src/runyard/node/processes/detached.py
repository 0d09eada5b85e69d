import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from runyard.core.errors import EngineError
from runyard.core.umask import users_umask
from runyard_sdk.home import private

_SOON_SECONDS = 0.05


def tries_within(seconds: float) -> Iterator[None]:
    """Yield until the time is over, then once more: a process that was stopped (SIGSTOP) has not tried yet."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        yield
    yield


class DetachedProcess:
    """A background process of a home that outlives its starter. There is one at a time.

    It writes a byte to a descriptor when it listens, and exits with code `another` when the home already has one.
    """

    def __init__(self, what: str, log: Path, *, another: int) -> None:
        self._what, self._log, self._another = what, log, another
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Callable[[int], list[str]], variables: Mapping[str, str]) -> None:
        """Start it, and return when it listens, has found another that does, or was killed. `command` gets the
        descriptor. Raises EngineError with the last line of its log when it failed: a retry would fail too."""
        if self._process is not None:
            self._process.poll()
        is_ready, ready_fd = os.pipe()
        try:
            with open(self._log, "ab", opener=private) as log:
                self._process = _launch(command(ready_fd), log.fileno(), ready_fd, variables)
            os.close(ready_fd)
            ready_fd = -1
            if not os.read(is_ready, 1):
                self._check_ended(self._process)
        finally:
            os.close(is_ready)
            if ready_fd >= 0:
                os.close(ready_fd)

    def _check_ended(self, process: "subprocess.Popen[bytes]") -> None:
        try:
            code = process.wait(timeout=_SOON_SECONDS)
        except subprocess.TimeoutExpired:
            return
        was_killed = code < 0  # a retry may succeed
        if not was_killed and code not in (0, self._another):
            last = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise EngineError(f"The {self._what} ended with {code}: {' '.join(last)}", hint=f"See {self._log}.")


def _launch(command: list[str], log: int, ready_fd: int, variables: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=dict(variables),
        pass_fds=(ready_fd,),
        start_new_session=True,
        umask=users_umask(),
    )
