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
_SUPERVISED = frozenset({PartPhase.ALIVE, PartPhase.QUEUED})
_MOST_RECOVERIES = 3


@dataclass(frozen=True)
class Sighting:
    """A node task without a living supervisor."""

    run: RunRecord
    node: int
    phase: PartPhase
    why: str
    is_beyond_help: bool
    """True after several recoveries in a row that did not help."""


@dataclass(frozen=True)
class Sightings:
    found: Sequence[Sighting]
    unreachable: Mapping[str, str]
    """Run id to reason, for runs whose site did not answer. They may be running well."""
    queued: Sequence[RunRecord] = ()
    """Runs in the engine's own queue, each with its new message."""


class Watch:
    """Asks engines for the state of all supervised runs; counts how often in a row a task was lost."""

    def __init__(self, clusters: Places) -> None:
        self._clusters = clusters
        self._times_lost: Counter[tuple[str, int]] = Counter()

    def observe(self, unfinished: Sequence[RunRecord]) -> Sightings:
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
                tasks = observed[ticket_of(run)]
                lost += [(run, node, task) for node, task in enumerate(tasks) if task.phase not in _SUPERVISED]
                queued += _queue_message(run, tasks)
        self._times_lost = Counter(
            {(run.ticket, node): self._times_lost[run.ticket, node] + 1 for run, node, _ in lost}
        )
        return Sightings([self._lost_task(*one) for one in lost], unreachable, queued)

    def _lost_task(self, run: RunRecord, node: int, task: Observed) -> Sighting:
        return Sighting(run, node, task.phase, task.why, self._times_lost[run.ticket, node] > _MOST_RECOVERIES)

    def _by_site(
        self, watched: Sequence[RunRecord], unreachable: dict[str, str]
    ) -> Sequence[tuple[Site, Sequence[RunRecord]]]:
        sites: dict[tuple[str, str], Site] = {}
        found: dict[str, tuple[Site, list[RunRecord]]] = {}
        for run in watched:
            target = (run.workspace, run.target)
            try:
                site = sites.get(target) or sites.setdefault(target, self._clusters.site_of(run))
            except EngineError as error:
                unreachable[run.id] = str(error)
                continue
            found.setdefault(site.name, (site, []))[1].append(run)
        return list(found.values())


def _queue_message(run: RunRecord, tasks: Sequence[Observed]) -> Sequence[RunRecord]:
    why = next((task.why for task in tasks if task.phase is PartPhase.QUEUED and task.why), "")
    message = f"In the queue of '{run.target}': {why}"
    return [replace(run, message=message)] if why and run.is_handed_over and run.message != message else []
