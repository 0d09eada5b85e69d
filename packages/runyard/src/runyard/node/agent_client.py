import contextlib
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from runyard.core.durable_files import is_locked
from runyard.core.errors import EngineError, EngineSilent, Json
from runyard.core.ports.engine import NodeTaskPhase
from runyard.core.worker_variables import WORKER_VARIABLES
from runyard.node.home_socket import AGENT_LOCK, AGENT_LOG, ANOTHER_AGENT, ask_agent
from runyard.node.processes.detached import DetachedProcess, tries_within
from runyard.node.processes.procfs import ProcessId
from runyard.node.task_folder import TASK_VARIABLE, TaskFolder
from runyard.node.version import node_version

_START_SECONDS = 20.0
_ANSWER_SECONDS, _ANSWER_OF_SILENT_SECONDS = 5.0, 0.5
_POLL_SECONDS = 0.02
_VARIABLES_OF_TASKS = WORKER_VARIABLES | {"RUNYARD_ATTEMPT", TASK_VARIABLE}


class AgentClient:
    """Client of a home's agent. Starts the agent when none answers; the agent outlives this process."""

    def __init__(self, home: Path, *, environ: Mapping[str, str] | None = None, guard: ProcessId | None = None) -> None:
        """`environ`: variables of the agent, by default our own. With a `guard` the agent kills its tasks when that
        process ends, and is no child of ours."""
        self._home, self._environ, self._guard = home, environ, guard
        self._starting = threading.Lock()
        self._process = DetachedProcess("node agent", home / AGENT_LOG, another=ANOTHER_AGENT)
        self._checked = self._is_silent = False

    def ask(self, request: Json) -> Json:
        """Send a request and return the answer. Raises EngineSilent when the agent lives and does not answer,
        EngineError when it refuses or cannot be started."""
        if self._checked:
            with contextlib.suppress(OSError):
                return self._ask(request)
        with self._starting:
            self._ensure()
            return self._ask(request)

    def is_silent(self) -> bool:
        """Tell whether the agent lives and does not answer: it may be stopped (SIGSTOP). It handles pending requests
        when it goes on."""
        if self._is_silent:
            with contextlib.suppress(OSError, EngineError):
                self._ask({"op": "status"})
        return self._is_silent

    def _ask(self, request: Json) -> Json:
        """Raises OSError when there is no agent."""
        seconds = _ANSWER_OF_SILENT_SECONDS if self._is_silent else _ANSWER_SECONDS
        try:
            answer = ask_agent(self._home, request, timeout_seconds=seconds)
        except (TimeoutError, BlockingIOError) as error:  # the latter when the listen queue is full
            self._is_silent = is_locked(self._home / AGENT_LOCK)
            if not self._is_silent:
                raise
            message = f"The node agent of {self._home} lives and does not answer; it is asked again."
            raise EngineSilent(message, hint="If somebody has stopped it, let it go on: kill -CONT.") from error
        except OSError:
            self._is_silent = False
            raise
        self._is_silent = False
        return answer

    def _ensure(self) -> None:
        """Start an agent if there is none. One of another version, or with another guard, is asked to exit first; its
        supervisors go on."""
        replaced: set[int] = set()
        for _ in tries_within(_START_SECONDS):
            try:
                status = self._ask({"op": "status"})
                # A new agent runs the installed version, also where this process runs older code.
                is_current = status["version"] == node_version() or (replaced and status["pid"] not in replaced)
                if is_current and status.get("guard") == self._guard_words():
                    self._checked = True
                    return
                replaced.add(status["pid"])
                self._ask({"op": "exit"})
            except OSError:
                self._process.start(self._command, self._variables())
            time.sleep(_POLL_SECONDS)
        log = self._home / AGENT_LOG
        raise EngineError(
            f"The node agent of {self._home} did not start within {_START_SECONDS:.0f} s.", hint=f"See {log}."
        )

    def _command(self, ready_fd: int) -> list[str]:
        command = [sys.executable, "-m", "runyard.node.exit_keeper", str(self._home), str(ready_fd)]
        return command if self._guard is None else [*command, self._guard.format()]

    def _variables(self) -> dict[str, str]:
        given = os.environ if self._environ is None else self._environ
        return {name: value for name, value in given.items() if name not in _VARIABLES_OF_TASKS}

    def _guard_words(self) -> str | None:
        return None if self._guard is None else self._guard.format()


class NodeTasks:
    """Node tasks of one home folder, through the agent that starts their supervisors."""

    def __init__(self, home: Path, agent: AgentClient) -> None:
        self._home, self._agent = home, agent

    def write_plan(self, part: str, plan: Json) -> None:
        """Write the plan of a task, unless it has one."""
        folder = TaskFolder(self._home, part)
        if not folder.exists():
            folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.write("plan.json", plan)

    def start(self, part: str) -> None:
        """Start a supervisor for a task that has a plan, unless it has one. Raises EngineError."""
        self._agent.ask({"op": "start", "part": part})

    def recover(self, part: str) -> None:
        self._agent.ask({"op": "recover", "part": part})

    def cancel(self, part: str, grace_seconds: float, end_as: str) -> None:
        """Ask the task to stop. Does nothing when it is gone."""
        TaskFolder(self._home, part).request_cancel(grace_seconds, end_as)

    def phase(self, part: str) -> NodeTaskPhase:
        """Phase of a task. LOST also when it is gone: its end was acknowledged, or it never existed."""
        folder = TaskFolder(self._home, part)
        if not folder.exists():
            return NodeTaskPhase.LOST
        if folder.supervisor() is not None:
            return NodeTaskPhase.ALIVE
        try:
            lock = folder.take_lock()
        except FileNotFoundError:  # it has just ended, and its folder was removed
            return NodeTaskPhase.LOST
        if lock is None:  # forked, but `supervisor.json` is not written yet
            return NodeTaskPhase.ALIVE
        os.close(lock)
        # A stopped agent (SIGSTOP) supervises its tasks when it goes on.
        return NodeTaskPhase.ALIVE if self._agent.is_silent() else NodeTaskPhase.LOST
