import os
from pathlib import Path

from runyard.compute.local.warm_agent import WarmAgent
from runyard.errors import Json
from runyard.node.attempt import AttemptFolder
from runyard.ports.engine import PartPhase


class NodeParts:
    """Node tasks of one home folder, through the agent that starts their supervisors."""

    def __init__(self, home: Path, agent: WarmAgent) -> None:
        self._home, self._agent = home, agent

    def lay_out(self, part: str, plan: Json) -> None:
        """Write the plan of a task, unless it has one."""
        folder = AttemptFolder(self._home, part)
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
        AttemptFolder(self._home, part).want_cancel(grace_seconds, end_as)

    def phase(self, part: str) -> PartPhase:
        """Phase of a task. LOST also when it is gone: its end was acknowledged, or it never existed."""
        folder = AttemptFolder(self._home, part)
        if not folder.exists():
            return PartPhase.LOST
        if folder.supervisor() is not None:
            return PartPhase.ALIVE
        try:
            lock = folder.take_lock()
        except FileNotFoundError:  # it has just ended, and its folder was removed
            return PartPhase.LOST
        if lock is None:  # forked, but `supervisor.json` is not written yet
            return PartPhase.ALIVE
        os.close(lock)
        # A stopped agent (SIGSTOP) supervises its tasks when it goes on.
        return PartPhase.ALIVE if self._agent.is_silent() else PartPhase.LOST
