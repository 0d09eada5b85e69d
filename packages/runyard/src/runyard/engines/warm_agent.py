import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from runyard.errors import EngineError, Json
from runyard.model.worker_variables import WORKER_VARIABLES
from runyard.node.agent_socket import ANOTHER_AGENT, ask_agent
from runyard.node.attempt import PART_VARIABLE
from runyard.node.detached import DetachedProcess
from runyard.node.fence import guard_words
from runyard.node.processes import ProcessId
from runyard.node.version import node_version

_START_SECONDS = 20.0
_LOOK_AGAIN_SECONDS = 0.02
_OF_OTHERS = WORKER_VARIABLES | {"RUNYARD_ATTEMPT", PART_VARIABLE}


class WarmAgent:
    """The agent of a home folder, started when it is asked something and is not there. It outlives this object."""

    def __init__(self, home: Path, *, environ: Mapping[str, str] | None = None, guard: ProcessId | None = None) -> None:
        """The agent has these variables (by default our own). With a `guard` it ends all it looks after when that
        process ends, and it is no child of ours."""
        self._home, self._environ, self._guard = home, environ, guard
        self._starting = threading.Lock()
        self._process = DetachedProcess("node agent", home / "agent.log", another=ANOTHER_AGENT)
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
        sent_away: set[int] = set()
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                status = ask_agent(self._home, {"op": "status"})
                # A successor runs what is installed now, however old the code of this process is.
                is_current = status["version"] == node_version() or (sent_away and status["pid"] not in sent_away)
                if is_current and status.get("guard") == self._guard_words():
                    self._checked = True
                    return
                sent_away.add(status["pid"])
                ask_agent(self._home, {"op": "exit"})
            except OSError:
                self._process.start(self._command, self._variables())
            time.sleep(_LOOK_AGAIN_SECONDS)
        log = self._home / "agent.log"
        raise EngineError(
            f"The node agent of {self._home} did not start within {_START_SECONDS:.0f} s.", hint=f"See {log}."
        )

    def _command(self, told: int) -> list[str]:
        command = [sys.executable, "-m", "runyard.node.agent", str(self._home), str(told)]
        return command if self._guard is None else [*command, guard_words(self._guard)]

    def _variables(self) -> dict[str, str]:
        given = os.environ if self._environ is None else self._environ
        return {name: value for name, value in given.items() if name not in _OF_OTHERS}

    def _guard_words(self) -> str | None:
        return None if self._guard is None else guard_words(self._guard)
