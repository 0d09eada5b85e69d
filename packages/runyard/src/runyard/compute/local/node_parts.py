import os
from pathlib import Path

from runyard.compute.local.warm_agent import WarmAgent
from runyard.errors import Json
from runyard.node.attempt import AttemptFolder
from runyard.ports.engine import PartPhase


class NodeParts:
    """The parts that lie in one home folder, and the agent that starts their supervisors."""

    def __init__(self, home: Path, agent: WarmAgent) -> None:
        self._home, self._agent = home, agent

    def lay_out(self, part: str, plan: Json) -> None:
        """Keep the plan; one that is there already stays."""
        folder = AttemptFolder(self._home, part)
        if not folder.exists():
            folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.write("plan.json", plan)

    def start(self, part: str) -> None:
        """Have a supervisor on a part that was laid out, unless it has one. Raises EngineError."""
        self._agent.ask({"op": "start", "part": part})

    def recover(self, part: str) -> None:
        self._agent.ask({"op": "recover", "part": part})

    def cancel(self, part: str, grace_seconds: float, end_as: str) -> None:
        """Quiet when the part is gone."""
        AttemptFolder(self._home, part).want_cancel(grace_seconds, end_as)

    def phase(self, part: str) -> PartPhase:
        """LOST for one that is gone, too: it has ended and was acknowledged, or never was."""
        folder = AttemptFolder(self._home, part)
        if not folder.exists():
            return PartPhase.LOST
        if folder.supervisor() is not None:
            return PartPhase.ALIVE
        try:
            lock = folder.take_lock()
        except FileNotFoundError:  # it has ended, and its folder was removed this very moment
            return PartPhase.LOST
        if lock is None:  # forked, and not yet signed in
            return PartPhase.ALIVE
        os.close(lock)
        # An agent that was stopped looks after its parts, old and new, when it goes on.
        return PartPhase.ALIVE if self._agent.is_silent() else PartPhase.LOST
