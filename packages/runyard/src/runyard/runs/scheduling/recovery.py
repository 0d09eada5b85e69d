import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from runyard.compute.clusters import Clusters
from runyard.core.errors import Conflict, EngineError, NotFound
from runyard.core.ports.engine import NodeTaskPhase, ObservedTask, Site, ticket_of
from runyard.core.ports.stores import RunStore
from runyard.core.records.nodes import NodeTaskState
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.scheduling.attempt_tasks import AttemptTasks
from runyard.runs.scheduling.reports import ReportHandler
from runyard.runs.scheduling.run_starter import NOT_STARTED, RunStarter

_S = RunStatus
_ELSEWHERE = "Goes on, and is looked after again once the database is held by the service of"
_LEFT_ALONE = "nobody looks after it any more, and starting a new supervisor for it did not help"


@dataclass(frozen=True)
class LostTask:
    """A node task without a living supervisor."""

    run: RunRecord
    node: int
    phase: NodeTaskPhase
    why: str
    is_beyond_help: bool
    """True after several recoveries in a row that did not help."""


class Recovery:
    """Finds runs whose supervisor is lost: starts a new one where that is safe, else ends the run."""

    def __init__(
        self,
        runs: RunStore,
        clusters: Clusters,
        tasks: AttemptTasks,
        starter: RunStarter,
        reports: ReportHandler,
        advance: Callable[[RunId], None],
        launched_from: str | None = None,
    ) -> None:
        self._runs, self._clusters, self._tasks, self._starter = runs, clusters, tasks, starter
        self._reports, self._advance, self._launched_from = reports, advance, launched_from
        self._watch = SupervisorWatch(clusters)
        self._messages: dict[str, str] = {}

    def reconcile(self, unfinished: Sequence[RunRecord]) -> bool:
        """Recover lost tasks. Returns whether a run has ended or was queued again."""
        elsewhere: dict[str, str] = {
            run.id: f"{_ELSEWHERE} {run.launched_from}." for run in unfinished if self._is_elsewhere(run)
        }
        watched = self._watch.observe([run for run in unfinished if run.id not in elsewhere])
        self._show_unreachable(unfinished, {**watched.unreachable, **elsewhere})
        for run in watched.queued:
            if self._runs.get(run.id).is_handed_over:
                self._runs.update(run.id, message=run.message)
        has_changed = False
        for lost in watched.found:
            with contextlib.suppress(Conflict, NotFound, EngineError):
                now = self._carry_on(lost)
                has_changed |= now.status.is_terminal or now.status is _S.QUEUED
        return has_changed

    def _is_elsewhere(self, run: RunRecord) -> bool:
        """Whether the run was launched by the service of another home, which alone can see its processes."""
        if not run.ticket or run.launched_from in (None, self._launched_from):
            return False
        try:
            return self._clusters.site_of(run).shares_files
        except EngineError:
            return False

    def _carry_on(self, lost: LostTask) -> RunRecord:
        run = self._runs.get(lost.run.id)
        if (run.ticket, run.status) != (lost.run.ticket, lost.run.status):
            return run
        task = self._tasks.known(run).get(lost.node) if len(run.nodes) > 1 else None
        if task is not None and task.state is NodeTaskState.ENDED:
            return self._reports.settle(run.id)
        if lost.phase is NodeTaskPhase.GONE or lost.is_beyond_help:
            return self._give_up(run, lost)
        if run.status is _S.PREPARING:
            return self._prepared_or_prepare(run)
        if (run.status is _S.STARTING or run.is_handed_over) and task is None:
            return self._starter.start_again(run)
        self._clusters.site_of(run).engine.recover(ticket_of(run), lost.node)
        return run

    def _give_up(self, run: RunRecord, lost: LostTask) -> RunRecord:
        if run.status is _S.PREPARING and lost.phase is NodeTaskPhase.GONE and self._starter.may_prepare_again(run):
            return self._starter.prepare_elsewhere(run)
        known = run.message if run.message.startswith(NOT_STARTED) else _LEFT_ALONE
        return self._reports.lose(run.id, run.ticket, lost.node, lost.why or known)

    def _prepared_or_prepare(self, run: RunRecord) -> RunRecord:
        """Advance the run if its build has finished and only the report was lost; else build again."""
        self._advance(run.id)
        now = self._runs.get(run.id)
        return self._starter.prepare(now) if now.version == run.version else now

    def _show_unreachable(self, unfinished: Sequence[RunRecord], unreachable: Mapping[str, str]) -> None:
        """Show on each run why its site cannot be reached; clear the message once it can."""
        for run in unfinished:
            why = unreachable.get(run.id)
            if why is not None and run.message != why:
                self._messages[run.id] = why
                self._runs.update(run.id, message=why)
            elif why is None and (
                self._messages.pop(run.id, None) == run.message or run.message.startswith(_ELSEWHERE)
            ):
                self._runs.update(run.id, message="")
        self._messages = {run.id: self._messages[run.id] for run in unfinished if run.id in self._messages}


_WITH_SUPERVISOR = frozenset(
    {RunStatus.PREPARING, RunStatus.STARTING, RunStatus.RUNNING, RunStatus.FINALIZING, RunStatus.CANCEL_REQUESTED}
)
_SUPERVISED = frozenset({NodeTaskPhase.ALIVE, NodeTaskPhase.QUEUED})
_MOST_RECOVERIES = 3


@dataclass(frozen=True)
class WatchResult:
    found: Sequence[LostTask]
    unreachable: Mapping[str, str]
    """Run id to reason, for runs whose site did not answer. They may be running well."""
    queued: Sequence[RunRecord] = ()
    """Runs in the engine's own queue, each with its new message."""


class SupervisorWatch:
    """Asks engines for the state of all supervised runs; counts how often in a row a task was lost."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._times_lost: Counter[tuple[str, int]] = Counter()

    def observe(self, unfinished: Sequence[RunRecord]) -> WatchResult:
        watched = [run for run in unfinished if run.ticket and (run.status in _WITH_SUPERVISOR or run.is_handed_over)]
        lost: list[tuple[RunRecord, int, ObservedTask]] = []
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
        return WatchResult([self._lost_task(*one) for one in lost], unreachable, queued)

    def _lost_task(self, run: RunRecord, node: int, task: ObservedTask) -> LostTask:
        return LostTask(run, node, task.phase, task.why, self._times_lost[run.ticket, node] > _MOST_RECOVERIES)

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


def _queue_message(run: RunRecord, tasks: Sequence[ObservedTask]) -> Sequence[RunRecord]:
    why = next((task.why for task in tasks if task.phase is NodeTaskPhase.QUEUED and task.why), "")
    message = f"In the queue of '{run.target}': {why}"
    return [replace(run, message=message)] if why and run.is_handed_over and run.message != message else []
