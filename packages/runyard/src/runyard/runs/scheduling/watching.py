from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runyard.errors import EngineError
from runyard.model.runs import RunRecord, RunStatus
from runyard.ports.engine import Observed, PartPhase, Site, ticket_of
from runyard.runs.scheduling.places import Places

_WITH_SUPERVISOR = frozenset(
    {RunStatus.PREPARING, RunStatus.STARTING, RunStatus.RUNNING, RunStatus.FINALIZING, RunStatus.CANCEL_REQUESTED}
)
_LOOKED_AFTER = frozenset({PartPhase.ALIVE, PartPhase.QUEUED})
_CHANCES = 3


@dataclass(frozen=True)
class Sighting:
    """A part of a run that nobody looks after."""

    run: RunRecord
    node: int
    phase: PartPhase
    why: str
    is_beyond_help: bool
    """It was found lost time and again although it had been carried on."""


@dataclass(frozen=True)
class Sightings:
    found: Sequence[Sighting]
    unreachable: Mapping[str, str]
    """Runs, by id, of which nothing can be said, and why: no sign that anything is wrong with them."""
    queued: Sequence[RunRecord] = ()
    """Runs in an engine's own queue, with what it says of them as their new message."""


class Watch:
    """Asks engines about runs that should have supervisors; remembers how often in a row a part was lost."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._seen: Counter[tuple[str, int]] = Counter()

    def look(self, unfinished: Sequence[RunRecord]) -> Sightings:
        watched = [run for run in unfinished if run.ticket and (run.status in _WITH_SUPERVISOR or run.is_handed_over)]
        lost: list[tuple[RunRecord, int, Observed]] = []
        queued: list[RunRecord] = []
        unreachable: dict[str, str] = {}
        for site, runs in self._by_site(watched, unreachable):
            try:
                observed = site.engine.observe([ticket_of(run) for run in runs])
            except EngineError as error:
                unreachable |= {run.id: str(error) for run in runs}
                continue
            for run in runs:
                parts = observed[ticket_of(run)]
                lost += [(run, node, part) for node, part in enumerate(parts) if part.phase not in _LOOKED_AFTER]
                queued += _news_of_queue(run, parts)
        self._seen = Counter({(run.ticket, node): self._seen[run.ticket, node] + 1 for run, node, _ in lost})
        return Sightings([self._sighting(*one) for one in lost], unreachable, queued)

    def _sighting(self, run: RunRecord, node: int, part: Observed) -> Sighting:
        return Sighting(run, node, part.phase, part.why, self._seen[run.ticket, node] > _CHANCES)

    def _by_site(
        self, watched: Sequence[RunRecord], unreachable: dict[str, str]
    ) -> Sequence[tuple[Site, Sequence[RunRecord]]]:
        sites: dict[tuple[str, str], Site] = {}
        found: dict[str, tuple[Site, list[RunRecord]]] = {}
        for run in watched:
            target = (run.workspace, run.target)
            try:
                site = sites.get(target) or sites.setdefault(target, self._places.site_of(run))
            except EngineError as error:
                unreachable[run.id] = str(error)
                continue
            found.setdefault(site.name, (site, []))[1].append(run)
        return list(found.values())


def _news_of_queue(run: RunRecord, parts: Sequence[Observed]) -> Sequence[RunRecord]:
    why = next((part.why for part in parts if part.phase is PartPhase.QUEUED and part.why), "")
    message = f"In the queue of '{run.target}': {why}"
    return [replace(run, message=message)] if why and run.is_handed_over and run.message != message else []
