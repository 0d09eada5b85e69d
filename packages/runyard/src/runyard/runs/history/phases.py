from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from runyard.model.runs import RunEvent, RunRecord, RunStatus

_ENDS = frozenset(status.value for status in RunStatus if status.is_terminal)


@dataclass(frozen=True)
class Phase:
    name: str
    seconds: float
    started_at: datetime


def phases_of(run: RunRecord, events: Sequence[RunEvent], now: datetime) -> list[Phase]:
    """Time spent in each status, in order; the present one until now, without terminal ones."""
    reached = [(event.at, event.text) for event in events if event.kind == "status"]
    if not reached:
        reached = [(run.created_at, run.status.value)]
    phases = []
    for (at, name), (next_at, _) in zip(reached, [*reached[1:], (now, "")], strict=True):
        if name not in _ENDS:
            phases.append(Phase(name, round(max(0.0, (next_at - at).total_seconds()), 3), at))
    return phases
