from collections import Counter
from collections.abc import Sequence

from runyard.model.runs import RunRecord, RunStatus
from runyard.ports.engine import Engine, PartPhase, Ticket

_WITH_SUPERVISOR = frozenset(
    {RunStatus.PREPARING, RunStatus.STARTING, RunStatus.RUNNING, RunStatus.FINALIZING, RunStatus.CANCEL_REQUESTED}
)
_CHANCES = 3


class LostAttempts:
    """Remembers which attempts nobody looks after, and how often that was seen in a row."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: Counter[str] = Counter()

    def among(self, unfinished: Sequence[RunRecord]) -> list[RunRecord]:
        """The runs that should have a supervisor and have none."""
        watched = [run for run in unfinished if run.ticket and run.status in _WITH_SUPERVISOR]
        if not watched:
            self._seen.clear()
            return []
        phases = self._engine.observe([Ticket(run.ticket) for run in watched])
        lost = [run for run in watched if any(part.phase is PartPhase.LOST for part in phases[Ticket(run.ticket)])]
        self._seen = Counter({run.ticket: self._seen[run.ticket] + 1 for run in lost})
        return lost

    def is_beyond_help(self, run: RunRecord) -> bool:
        """It was found lost time and again although it had been carried on."""
        return self._seen[run.ticket] > _CHANCES
