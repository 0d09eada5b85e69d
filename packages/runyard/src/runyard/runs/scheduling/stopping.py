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
    """Asks the engine to stop all node tasks of an attempt; repeats it where the engine could not be reached."""

    def __init__(self, clusters: Places, runs: RunStore) -> None:
        self._clusters, self._runs = clusters, runs
        self._canceled: set[str] = set()

    def cancel(self, run: RunRecord, grace: timedelta | None = None) -> None:
        """Cancel the attempt with the grace period of the run, or the given one."""
        if self.stop(run, grace=_grace(run) if grace is None else grace, end_as="canceled"):
            self._canceled.add(run.ticket)

    def stop(self, run: RunRecord, *, grace: timedelta, end_as: str) -> bool:
        """Stop all tasks. False if the engine could not be reached: supervisors learn it with their next report."""
        try:
            self._clusters.site_of(run).engine.cancel(ticket_of(run), grace=grace, end_as=end_as)
        except EngineError:
            return False
        return True

    def cancel_untold(self, unfinished: Iterable[RunRecord]) -> None:
        """Cancel runs in CancelRequested whose engine has not been asked yet."""
        canceled = [run for run in unfinished if run.status is RunStatus.CANCEL_REQUESTED and run.ticket]
        self._canceled &= {run.ticket for run in canceled}
        for run in canceled:
            if run.ticket not in self._canceled:
                with contextlib.suppress(NotFound):
                    self.cancel(self._runs.get(run.id))


def _grace(run: RunRecord) -> timedelta:
    given = run.definition.runyard.cancel_grace_seconds
    return timedelta(seconds=_DEFAULT_GRACE_SECONDS if given is None else given)
