import contextlib
import importlib.util
import itertools
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runyard.compute.ray.lines import JsonLines
from runyard.errors import EngineError, Json, from_wire

_CONNECT_SECONDS = 60.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_LOG_BYTES = 4 << 20


class BridgeLink:
    """The service's end of a bridge to one Ray cluster. Starts the bridge when it is first needed, and again whenever
    it has died or lost the cluster. Safe to use from many threads."""

    def __init__(
        self, address: str, service: str, log: Path, *, on_event: Callable[[Json], None] = lambda _: None
    ) -> None:
        self.address = address
        self._service, self._log, self._on_event = service, log, on_event
        self._changed = threading.Condition()
        self._lines: JsonLines | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._why: EngineError | None = None
        self._failures = 0
        self._away_since = time.monotonic()
        self._waiting: dict[int, queue.SimpleQueue[Json]] = {}
        self._numbers = itertools.count(1)
        self._keeper: threading.Thread | None = None
        self._is_closed = False

    def start(self) -> None:
        """Connect, so that the first call need not wait. Quiet where Ray is not installed: the first call says so."""
        with contextlib.suppress(EngineError):
            self._ensure_keeper()

    def call(self, op: str, *, seconds: float, patience_seconds: float = 0.0, **values: Any) -> Any:
        """The bridge's answer. EngineError when it does not come in time, or no cluster is there; `patience_seconds`
        is how long a connection that is being made is waited for."""
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
        """For how long there has been no cluster at the other end; 0 while there is one."""
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
            process.kill()  # it has nothing to save, and Ray's own way out takes seconds
        if self._keeper is not None:
            self._keeper.join(timeout=10)

    def _connected(self, patience_seconds: float) -> JsonLines:
        self._ensure_keeper()
        with self._changed:
            before = self._failures
            self._changed.wait_for(
                lambda: self._lines is not None or self._is_closed or self._failures > before, patience_seconds
            )
            if self._lines is not None:
                return self._lines
            raise self._why or EngineError(
                f"The Ray cluster at {self.address} is being connected to.",
                hint=f"If that lasts, see {self._log}, and check that its head runs and that the address is right.",
            )

    def _ensure_keeper(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise EngineError("Compute on Ray needs the package 'ray'.", hint="Run: pip install 'runyard[ray]'")
        with self._changed:
            if self._keeper is None and not self._is_closed:
                self._away_since = time.monotonic()
                self._keeper = threading.Thread(target=self._keep, name="ray-bridge", daemon=True)
                self._keeper.start()

    def _keep(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_closed:
            if self._follow_one():
                pause = _FIRST_PAUSE_SECONDS
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _follow_one(self) -> bool:
        """Start a bridge and hear it out. Returns whether it had been connected."""
        ours, theirs = socket.socketpair()
        lines = JsonLines(ours)
        try:
            with theirs:
                process = self._start(theirs.fileno())
        except OSError as e:
            ours.close()
            self._why = EngineError(f"The bridge to Ray cannot be started: {e}.")
            return False
        slow = threading.Timer(_CONNECT_SECONDS, self._give_up, (process,))
        slow.start()
        was_connected = False
        for message in lines.read():
            if message.get("event") == "connected":
                slow.cancel()
                was_connected = True
                self._set(lines)
            self._hear(message)
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
        self._why = EngineError(
            f"The Ray cluster at {self.address} has not let the service in for {_CONNECT_SECONDS:.0f} s.",
            hint=f"See {self._log}.",
        )
        os.kill(process.pid, signal.SIGKILL)

    def _hear(self, message: Json) -> None:
        if message.get("event") == "failed":
            found = from_wire(message["error"])
            with self._changed:
                self._why = found if isinstance(found, EngineError) else EngineError(str(found))
                self._failures += 1
                self._changed.notify_all()
        if "event" in message:
            self._on_event(message)
        elif (answers := self._waiting.get(message["id"])) is not None:
            answers.put(message)

    def _set(self, lines: JsonLines) -> None:
        with self._changed:
            self._lines, self._why = lines, None
            self._changed.notify_all()

    def _lost(self, was_connected: bool) -> None:
        with self._changed:
            if was_connected:
                self._lines, self._away_since = None, time.monotonic()
                self._why = EngineError(f"The connection to the Ray cluster at {self.address} is lost.")
        error = {
            "error": {"code": "engine", "problem": f"The connection to the Ray cluster at {self.address} is lost."}
        }
        for answers in list(self._waiting.values()):
            answers.put(error)
