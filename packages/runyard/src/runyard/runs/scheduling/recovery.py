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
    """Carries on what nobody looks after: starts it again where that is safe, else has it brought to an end."""

    def __init__(
        self,
        runs: RunStore,
        places: Places,
        parts: Parts,
        starting: Starting,
        reports: Reports,
        advance: Callable[[RunId], None],
        launched_from: str | None = None,
    ) -> None:
        self._runs, self._places, self._parts, self._starting = runs, places, parts, starting
        self._reports, self._advance, self._launched_from = reports, advance, launched_from
        self._watch = Watch(places)
        self._told: dict[str, str] = {}

    def look(self, unfinished: Sequence[RunRecord]) -> bool:
        """Whether a run has ended, or waits to be started again, by it."""
        elsewhere: dict[str, str] = {
            run.id: f"{_ELSEWHERE} {run.launched_from}." for run in unfinished if self._is_elsewhere(run)
        }
        seen = self._watch.look([run for run in unfinished if run.id not in elsewhere])
        self._tell(unfinished, {**seen.unreachable, **elsewhere})
        for run in seen.queued:
            if self._runs.get(run.id).is_handed_over:
                self._runs.update(run.id, message=run.message)
        is_news = False
        for sighting in seen.found:
            with contextlib.suppress(Conflict, NotFound, EngineError):
                now = self._carry_on(sighting)
                is_news |= now.status.is_terminal or now.status is _S.QUEUED
        return is_news

    def _is_elsewhere(self, run: RunRecord) -> bool:
        """Whether its processes belong to another home, whose service was here before: only that one can see them."""
        if not run.ticket or run.launched_from in (None, self._launched_from):
            return False
        try:
            return self._places.site_of(run).shares_files
        except EngineError:
            return False

    def _carry_on(self, lost: Sighting) -> RunRecord:
        run = self._runs.get(lost.run.id)
        if (run.ticket, run.status) != (lost.run.ticket, lost.run.status):
            return run
        part = self._parts.known(run).get(lost.node) if len(run.nodes) > 1 else None
        if part is not None and part.state is PartState.ENDED:
            return self._reports.settle(run.id)
        if lost.phase is PartPhase.GONE or lost.is_beyond_help:
            return self._give_up(run, lost)
        if run.status is _S.PREPARING:
            return self._prepared_or_prepare(run)
        if (run.status is _S.STARTING or run.is_handed_over) and part is None:
            return self._starting.start_again(run)
        self._places.site_of(run).engine.recover(ticket_of(run), lost.node)
        return run

    def _give_up(self, run: RunRecord, lost: Sighting) -> RunRecord:
        if run.status is _S.PREPARING and lost.phase is PartPhase.GONE and self._starting.may_prepare_again(run):
            return self._starting.prepare_elsewhere(run)
        known = run.message if run.message.startswith(NOT_STARTED) else _LEFT_ALONE
        return self._reports.lose(run.id, run.ticket, lost.node, lost.why or known)

    def _prepared_or_prepare(self, run: RunRecord) -> RunRecord:
        """The supervisor may have ended well, and its report have been all that was missing."""
        self._advance(run.id)
        now = self._runs.get(run.id)
        return self._starting.prepare(now) if now.version == run.version else now

    def _tell(self, unfinished: Sequence[RunRecord], unreachable: Mapping[str, str]) -> None:
        """Runs go on while their site cannot be reached; their users read why nothing moves."""
        for run in unfinished:
            why = unreachable.get(run.id)
            if why is not None and run.message != why:
                self._told[run.id] = why
                self._runs.update(run.id, message=why)
            elif why is None and (self._told.pop(run.id, None) == run.message or run.message.startswith(_ELSEWHERE)):
                self._runs.update(run.id, message="")
        self._told = {run.id: self._told[run.id] for run in unfinished if run.id in self._told}
