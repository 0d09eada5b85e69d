import contextlib
from collections.abc import Callable, Mapping, Sequence

from runyard.errors import Conflict, EngineError, NotFound
from runyard.model.parts import PartState
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.engine import PartPhase, ticket_of
from runyard.ports.stores import RunStore
from runyard.runs.scheduling.parts import Parts
from runyard.runs.scheduling.places import Places
from runyard.runs.scheduling.reports import Reports
from runyard.runs.scheduling.starting import NOT_STARTED, Starting
from runyard.runs.scheduling.watching import Sighting, Watch

_S = RunStatus
_ELSEWHERE = "Goes on, and is looked after again once the database is held by the service of"
_LEFT_ALONE = "nobody looks after it any more, and starting a new supervisor for it did not help"


class Recovery:
    """Finds runs whose supervisor is lost: starts a new one where that is safe, else ends the run."""

    def __init__(
        self,
        runs: RunStore,
        clusters: Places,
        tasks: Parts,
        starter: Starting,
        reports: Reports,
        advance: Callable[[RunId], None],
        launched_from: str | None = None,
    ) -> None:
        self._runs, self._clusters, self._tasks, self._starter = runs, clusters, tasks, starter
        self._reports, self._advance, self._launched_from = reports, advance, launched_from
        self._watch = Watch(clusters)
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
        is_news = False
        for lost in watched.found:
            with contextlib.suppress(Conflict, NotFound, EngineError):
                now = self._carry_on(lost)
                is_news |= now.status.is_terminal or now.status is _S.QUEUED
        return is_news

    def _is_elsewhere(self, run: RunRecord) -> bool:
        """Whether the run was launched by the service of another home, which alone can see its processes."""
        if not run.ticket or run.launched_from in (None, self._launched_from):
            return False
        try:
            return self._clusters.site_of(run).shares_files
        except EngineError:
            return False

    def _carry_on(self, lost: Sighting) -> RunRecord:
        run = self._runs.get(lost.run.id)
        if (run.ticket, run.status) != (lost.run.ticket, lost.run.status):
            return run
        task = self._tasks.known(run).get(lost.node) if len(run.nodes) > 1 else None
        if task is not None and task.state is PartState.ENDED:
            return self._reports.settle(run.id)
        if lost.phase is PartPhase.GONE or lost.is_beyond_help:
            return self._give_up(run, lost)
        if run.status is _S.PREPARING:
            return self._prepared_or_prepare(run)
        if (run.status is _S.STARTING or run.is_handed_over) and task is None:
            return self._starter.start_again(run)
        self._clusters.site_of(run).engine.recover(ticket_of(run), lost.node)
        return run

    def _give_up(self, run: RunRecord, lost: Sighting) -> RunRecord:
        if run.status is _S.PREPARING and lost.phase is PartPhase.GONE and self._starter.may_prepare_again(run):
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
