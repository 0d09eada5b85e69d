import contextlib
from collections.abc import Iterable
from datetime import timedelta

from runyard.errors import EngineError, NotFound
from runyard.model.runs import RunRecord, RunStatus
from runyard.ports.engine import ticket_of
from runyard.ports.stores import RunStore
from runyard.runs.scheduling.places import Places

_DEFAULT_GRACE_SECONDS = 10.0


class Stopping:
    """Tells every part of an attempt to stop. An engine that cannot be reached is told later."""

    def __init__(self, places: Places, runs: RunStore) -> None:
        self._places, self._runs = places, runs
        self._told: set[str] = set()

    def cancel(self, run: RunRecord, grace: timedelta | None = None) -> None:
        """As its user wishes, with the grace that the run asks for."""
        if self.stop(run, grace=_grace(run) if grace is None else grace, end_as="canceled"):
            self._told.add(run.ticket)

    def stop(self, run: RunRecord, *, grace: timedelta, end_as: str) -> bool:
        """False where the engine could not be reached; supervisors hear of it in the answers to their reports."""
        try:
            self._places.site_of(run).engine.cancel(ticket_of(run), grace=grace, end_as=end_as)
        except EngineError:
            return False
        return True

    def cancel_untold(self, unfinished: Iterable[RunRecord]) -> None:
        """Those that were canceled while their engine, or the service, was away."""
        canceled = [run for run in unfinished if run.status is RunStatus.CANCEL_REQUESTED and run.ticket]
        self._told &= {run.ticket for run in canceled}
        for run in canceled:
            if run.ticket not in self._told:
                with contextlib.suppress(NotFound):
                    self.cancel(self._runs.get(run.id))


def _grace(run: RunRecord) -> timedelta:
    given = run.definition.runyard.cancel_grace_seconds
    return timedelta(seconds=_DEFAULT_GRACE_SECONDS if given is None else given)
