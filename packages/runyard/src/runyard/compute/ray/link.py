import contextlib
import importlib.util
import itertools
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runyard.core.errors import EngineError, Json, from_wire

_CONNECT_SECONDS = 60.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_LOG_BYTES = 4 << 20


class JsonLines:
    """JSON lines over a socket, between service and bridge. `send` is thread-safe; only one thread may `read`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()

    def send(self, message: Json) -> None:
        """Raises OSError when the other side is gone."""
        line = json.dumps(message).encode() + b"\n"
        with self._writing:
            self._connection.sendall(line)

    def read(self) -> Iterator[Json]:
        """Yield messages until the other side closes. A truncated last line is dropped."""
        try:
            with self._connection.makefile("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield json.loads(line)
        except OSError:
            return

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes up a reader in another thread
        self._connection.close()


class BridgeLink:
    """The service's end of the bridge to one Ray cluster. Starts the bridge on first use, and again whenever it has
    died or lost the cluster. Thread-safe."""

    def __init__(
        self, address: str, service: str, log: Path, *, on_event: Callable[[Json], None] = lambda _: None
    ) -> None:
        self.address = address
        self._service, self._log, self._on_event = service, log, on_event
        self._changed = threading.Condition()
        self._lines: JsonLines | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: EngineError | None = None
        self._failures = 0
        self._away_since = time.monotonic()
        self._waiting: dict[int, queue.SimpleQueue[Json]] = {}
        self._numbers = itertools.count(1)
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def start(self) -> None:
        """Connect in advance. Does nothing where Ray is not installed: the first call reports it."""
        with contextlib.suppress(EngineError):
            self._ensure_thread()

    def call(self, op: str, *, seconds: float, patience_seconds: float = 0.0, **values: Any) -> Any:
        """Send a request and return the bridge's answer. EngineError when it does not come in time, or there is no
        cluster. `patience_seconds`: how long to wait for a connection that is being made."""
        lines = self._connected(patience_seconds)
        number, answers = next(self._numbers), queue.SimpleQueue[Json]()
        self._waiting[number] = answers
        try:
            lines.send({"id": number, "op": op, "seconds": seconds, **values})
            answer = answers.get(timeout=seconds + 1.0)
        except (queue.Empty, OSError) as e:
            raise EngineError(f"The Ray cluster at {self.address} did not answer within {seconds:.0f} s.") from e
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise from_wire(answer["error"])
        return answer["answer"]

    def away_seconds(self) -> float:
        """Seconds without a connection to the cluster; 0 while there is one."""
        with self._changed:
            return 0.0 if self._lines is not None else time.monotonic() - self._away_since

    def bridge_pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def close(self) -> None:
        """End the bridge; nothing on the cluster changes."""
        with self._changed:
            self._is_closed = True
            process = self._process
            self._changed.notify_all()
        if process is not None and process.poll() is None:
            process.kill()  # it has nothing to save, and a shutdown of Ray takes seconds
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _connected(self, patience_seconds: float) -> JsonLines:
        self._ensure_thread()
        with self._changed:
            before = self._failures
            self._changed.wait_for(
                lambda: self._lines is not None or self._is_closed or self._failures > before, patience_seconds
            )
            if self._lines is not None:
                return self._lines
            raise self._failure or EngineError(
                f"The Ray cluster at {self.address} is being connected to.",
                hint=f"If that lasts, see {self._log}, and check that its head runs and that the address is right.",
            )

    def _ensure_thread(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise EngineError("Compute on Ray needs the package 'ray'.", hint="Run: pip install 'runyard[ray]'")
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._away_since = time.monotonic()
                self._thread = threading.Thread(target=self._keep_bridge, name="ray-bridge", daemon=True)
                self._thread.start()

    def _keep_bridge(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_closed:
            if self._run_bridge():
                pause = _FIRST_PAUSE_SECONDS
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _run_bridge(self) -> bool:
        """Start a bridge and read its messages until it ends. Returns whether it was connected."""
        ours, theirs = socket.socketpair()
        lines = JsonLines(ours)
        try:
            with theirs:
                process = self._start(theirs.fileno())
        except OSError as e:
            ours.close()
            self._failure = EngineError(f"The bridge to Ray cannot be started: {e}.")
            return False
        slow = threading.Timer(_CONNECT_SECONDS, self._give_up, (process,))
        slow.start()
        was_connected = False
        for message in lines.read():
            if message.get("event") == "connected":
                slow.cancel()
                was_connected = True
                self._set(lines)
            self._take_message(message)
        slow.cancel()
        self._lost(was_connected)
        lines.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        return was_connected

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        if self._log.exists() and self._log.stat().st_size > _LOG_BYTES:
            self._log.unlink()
        command = [sys.executable, "-m", "runyard.compute.ray.bridge", self.address, self._service, str(descriptor)]
        with self._changed, self._log.open("ab") as log:
            if self._is_closed:
                raise OSError("the service is stopping")
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", pass_fds=(descriptor,)
            )
            return self._process

    def _give_up(self, process: subprocess.Popen[bytes]) -> None:
        self._failure = EngineError(
            f"The Ray cluster at {self.address} has not let the service in for {_CONNECT_SECONDS:.0f} s.",
            hint=f"See {self._log}.",
        )
        os.kill(process.pid, signal.SIGKILL)

    def _take_message(self, message: Json) -> None:
        if message.get("event") == "failed":
            found = from_wire(message["error"])
            with self._changed:
                self._failure = found if isinstance(found, EngineError) else EngineError(str(found))
                self._failures += 1
                self._changed.notify_all()
        if "event" in message:
            self._on_event(message)
        elif (answers := self._waiting.get(message["id"])) is not None:
            answers.put(message)

    def _set(self, lines: JsonLines) -> None:
        with self._changed:
            self._lines, self._failure = lines, None
            self._changed.notify_all()

    def _lost(self, was_connected: bool) -> None:
        with self._changed:
            if was_connected:
                self._lines, self._away_since = None, time.monotonic()
                self._failure = EngineError(f"The connection to the Ray cluster at {self.address} is lost.")
        error = {
            "error": {"code": "engine", "problem": f"The connection to the Ray cluster at {self.address} is lost."}
        }
        for answers in list(self._waiting.values()):
            answers.put(error)
