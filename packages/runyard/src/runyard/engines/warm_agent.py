import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from runyard.errors import EngineError, Json
from runyard.node.agent_socket import ANOTHER_AGENT, ask_agent
from runyard.node.attempt import PART_VARIABLE
from runyard.node.fence import guard_words
from runyard.node.processes import ProcessId
from runyard.node.version import node_version

_START_SECONDS = 20.0
_LOOK_AGAIN_SECONDS = 0.02
_SOON_SECONDS = 0.05
_OF_RUNS = ("RUNYARD_ATTEMPT", PART_VARIABLE)


class WarmAgent:
    """The agent of a home folder, started when it is asked something and is not there. It outlives this object."""

    def __init__(self, home: Path, *, environ: Mapping[str, str] | None = None, guard: ProcessId | None = None) -> None:
        """The agent has these variables (by default our own). With a `guard` it ends all it looks after when that
        process ends, and it is no child of ours."""
        self._home, self._environ, self._guard = home, environ, guard
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._checked = False

    def ask(self, request: Json) -> Json:
        """Its answer. Raises EngineError when it refuses, or cannot be started."""
        try:
            if self._checked:
                return ask_agent(self._home, request)
        except OSError:
            pass
        with self._starting:
            self._ensure()
            return ask_agent(self._home, request)

    def _ensure(self) -> None:
        """An agent of another version than the one installed, or with another guard, is asked to leave; its
        supervisors live on."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                status = ask_agent(self._home, {"op": "status"})
                if status["version"] == node_version() and status.get("guard") == self._guard_words():
                    self._checked = True
                    return
                ask_agent(self._home, {"op": "exit"})
            except OSError:
                self._start()
            time.sleep(_LOOK_AGAIN_SECONDS)
        log = self._home / "agent.log"
        raise EngineError(
            f"The node agent of {self._home} did not start within {_START_SECONDS:.0f} s.", hint=f"See {log}."
        )

    def _start(self) -> None:
        """Returns when it listens, or has found another that does."""
        if self._process is not None:
            self._process.poll()
        is_ready, told = os.pipe()
        try:
            with (self._home / "agent.log").open("ab") as log:
                self._process = subprocess.Popen(
                    self._command(told),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=self._variables(),
                    pass_fds=(told,),
                    start_new_session=True,
                )
            os.close(told)
            told = -1
            os.read(is_ready, 1)
            self._check_started()
        finally:
            os.close(is_ready)
            if told >= 0:
                os.close(told)

    def _command(self, told: int) -> list[str]:
        command = [sys.executable, "-m", "runyard.node.agent", str(self._home), str(told)]
        return command if self._guard is None else [*command, guard_words(self._guard)]

    def _variables(self) -> dict[str, str]:
        given = os.environ if self._environ is None else self._environ
        return {name: value for name, value in given.items() if name not in _OF_RUNS}

    def _guard_words(self) -> str | None:
        return None if self._guard is None else guard_words(self._guard)

    def _check_started(self) -> None:
        """An agent that ended although no other holds its place will not do better the next time."""
        try:
            code = self._process.wait(timeout=_SOON_SECONDS) if self._process else 0
        except subprocess.TimeoutExpired:
            return
        if code not in (0, ANOTHER_AGENT):
            log = self._home / "agent.log"
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise EngineError(f"The node agent ended with {code}: {' '.join(last)}", hint=f"See {log}.")
