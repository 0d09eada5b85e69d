import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runyard.node.processes.procfs import children

START_SECONDS = 60
# Stands over the server, and ends it when whoever started both is gone, however that happened.
_GUARD = """
import os, signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, lambda *_: None)
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=lambda: os._exit(server.wait() & 255), daemon=True).start()
while os.read(0, 1):
    pass
os.killpg(0, signal.SIGKILL)
"""
_PAUSE = threading.Event()


class ServerProcess:
    """A server on a free loopback port, which it keeps when it is killed and started again. It ends with us."""

    def __init__(self, folder: Path) -> None:
        self.port = _free_port()
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Returns once it takes connections; RuntimeError with its output when it does not."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", _GUARD, *command],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"{command[0]} did not start:\n{self._log.read_text(errors='replace')[-3000:]}")
            _PAUSE.wait(0.05)

    def stop(self) -> None:
        """Let it finish."""
        self._end(signal.SIGTERM)

    def wait_for_handler(self) -> None:
        """Wait until the server handles SIGTERM: it may take connections before. RuntimeError when it never does."""
        assert self._process is not None
        end = time.monotonic() + START_SECONDS
        while not any(_handles_sigterm(child.pid) for child in children(self._process.pid)):
            if time.monotonic() > end:
                raise RuntimeError("The server does not handle SIGTERM.")
            _PAUSE.wait(0.01)

    def kill(self) -> None:
        """It and its children, at once, in the middle of what they do."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, how)
            self._process.wait()
            if self._process.stdin:
                self._process.stdin.close()
            self._process = None
            self.wait_until_gone()

    def wait_until_gone(self) -> None:
        """Nothing listens on its port any more; RuntimeError when something does."""
        end = time.monotonic() + START_SECONDS
        while self._answers():
            if time.monotonic() > end:
                raise RuntimeError(f"The server on port {self.port} does not end.")
            _PAUSE.wait(0.05)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def _handles_sigterm(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
