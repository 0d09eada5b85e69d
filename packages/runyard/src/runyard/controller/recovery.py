import contextlib
from collections.abc import Callable, Sequence

from runyard.controller.reports import Reports
from runyard.controller.starting import Starting
from runyard.controller.watching import Sighting, Watch
from runyard.errors import Conflict, EngineError, NotFound
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.engine import PartPhase, ticket_of
from runyard.ports.stores import RunStore
from runyard.services.places import Places

_S = RunStatus


class Recovery:
    """Carries on what nobody looks after: starts it again where that is safe, else has it brought to an end."""

    def __init__(
        self,
        runs: RunStore,
        places: Places,
        starting: Starting,
        reports: Reports,
        advance: Callable[[RunId], None],
    ) -> None:
        self._runs, self._places, self._starting = runs, places, starting
        self._reports, self._advance = reports, advance
        self._watch = Watch(places)

    def look(self, unfinished: Sequence[RunRecord]) -> bool:
        """Whether a run has ended by it."""
        has_ended = False
        for sighting in self._watch.look(unfinished).found:
            with contextlib.suppress(Conflict, NotFound, EngineError):
                has_ended |= self._carry_on(sighting)
        return has_ended

    def _carry_on(self, lost: Sighting) -> bool:
        run = self._runs.get(lost.run.id)
        if run.version != lost.run.version:
            return False
        if lost.is_beyond_help or lost.phase is PartPhase.GONE:
            self._end(run)
            return True
        if run.status is _S.PREPARING:
            self._advance(run.id)
            run = self._runs.get(run.id)
            if run.status is _S.PREPARING:
                self._starting.prepare(run)
        elif run.status is _S.STARTING:
            self._starting.start_again(run)
        else:
            self._places.site_of(run).engine.recover(ticket_of(run), lost.node)
        return False

    def _end(self, run: RunRecord) -> None:
        if run.status is _S.CANCEL_REQUESTED:
            self._reports.cancel(run.id)
        else:
            self._reports.fail(run.id, "ServiceError", "The run's processes and its folder on the node are gone.")
