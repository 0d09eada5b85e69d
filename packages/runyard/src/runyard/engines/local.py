import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from runyard.engines.gpus import find_gpus
from runyard.errors import EngineError, Json
from runyard.model.plan import LaunchPlan, part_name
from runyard.model.runs import AttemptId
from runyard.node.agent_socket import ANOTHER_AGENT, ask_agent
from runyard.node.attempt import PART_VARIABLE, AttemptFolder
from runyard.node.version import node_version
from runyard.planning.plan_json import plan_to_json
from runyard.ports.engine import Capabilities, Observed, PartPhase, Ticket

_START_SECONDS = 20.0
_LOOK_AGAIN_SECONDS = 0.02
_SOON_SECONDS = 0.05
_OF_RUNS = ("RUNYARD_ATTEMPT", PART_VARIABLE)


class LocalEngine:
    """Runs on this machine: nodes are slots of it, and a warm agent forks a supervisor for each part of an attempt.

    Supervisors and the agent outlive the process that holds this object.
    """

    def __init__(self, home: Path, *, max_nodes: int = 64) -> None:
        self._home = home
        self._starting = threading.Lock()
        self._agent_process: subprocess.Popen[bytes] | None = None
        self._checked = False
        self.gpus = find_gpus()
        self.capabilities = Capabilities(max_nodes, tuple(gpu.index for gpu in self.gpus), shares_files=True)

    def warm(self) -> None:
        """Have an agent of this version running, so that the first run need not wait for one."""
        self._ask({"op": "status"})

    def submit(self, plan: LaunchPlan) -> Ticket:
        ticket = _ticket(plan)
        # All plans first: from the first supervisor on, whoever asks sees every part.
        for node, part in enumerate(_parts(ticket)):
            folder = AttemptFolder(self._home, part)
            if not folder.exists():
                folder.root.mkdir(parents=True, exist_ok=True)
                folder.write("plan.json", plan_to_json(replace(plan, node=node)))
        for part in _parts(ticket):
            self._ask({"op": "start", "part": part})
        return ticket

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[Observed]]:
        return {ticket: [Observed(self._phase(part)) for part in _parts(ticket)] for ticket in tickets}

    def recover(self, ticket: Ticket, node: int) -> None:
        self._ask({"op": "recover", "part": _parts(ticket)[node]})

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        for part in _parts(ticket):
            AttemptFolder(self._home, part).want_cancel(grace.total_seconds(), end_as)

    def _phase(self, part: str) -> PartPhase:
        folder = AttemptFolder(self._home, part)
        if not folder.exists():
            return PartPhase.LOST
        if folder.supervisor() is not None:
            return PartPhase.ALIVE
        lock = folder.take_lock()
        if lock is None:  # forked, and not yet signed in
            return PartPhase.ALIVE
        os.close(lock)
        return PartPhase.LOST

    def _ask(self, request: Json) -> Json:
        try:
            if self._checked:
                return ask_agent(self._home, request)
        except OSError:
            pass
        with self._starting:
            self._ensure_agent()
            return ask_agent(self._home, request)

    def _ensure_agent(self) -> None:
        """An agent of another version than the one installed is asked to leave; its supervisors live on."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                if ask_agent(self._home, {"op": "status"})["version"] == node_version():
                    self._checked = True
                    return
                ask_agent(self._home, {"op": "exit"})
            except OSError:
                self._start_agent()
            time.sleep(_LOOK_AGAIN_SECONDS)
        log = self._home / "agent.log"
        raise EngineError(
            f"The node agent of {self._home} did not start within {_START_SECONDS:.0f} s.", hint=f"See {log}."
        )

    def _start_agent(self) -> None:
        """Returns when it listens, or has found another that does."""
        if self._agent_process is not None:
            self._agent_process.poll()
        is_ready, told = os.pipe()
        try:
            with (self._home / "agent.log").open("ab") as log:
                self._agent_process = subprocess.Popen(
                    [sys.executable, "-m", "runyard.node.agent", str(self._home), str(told)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env={
                        name: value
                        for name, value in os.environ.items()
                        if name not in ("RUNYARD_ATTEMPT", PART_VARIABLE)
                    },
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

    def _check_started(self) -> None:
        """An agent that ended although no other holds its place will not do better the next time."""
        try:
            code = self._agent_process.wait(timeout=_SOON_SECONDS) if self._agent_process else 0
        except subprocess.TimeoutExpired:
            return
        if code not in (0, ANOTHER_AGENT):
            log = self._home / "agent.log"
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise EngineError(f"The node agent ended with {code}: {' '.join(last)}", hint=f"See {log}.")


def _ticket(plan: LaunchPlan) -> Ticket:
    """Tells how many parts there are, also when the folders of some are gone. No attempt's name holds a '*'."""
    return Ticket(plan.attempt_id if len(plan.nodes) == 1 else f"{plan.attempt_id}*{len(plan.nodes)}")


def _parts(ticket: Ticket) -> list[str]:
    attempt_id, _, count = ticket.partition("*")
    return [part_name(AttemptId(attempt_id), node) for node in range(int(count or 1))]
