from collections.abc import Callable
from contextlib import suppress

from runyard.errors import Conflict, NotFound
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.stores import RunStore
from runyard.services.children import cancel_below, children_of

TIME_OVER = "Canceled because the time of its sweep was over."
_S = RunStatus
_WAITING = frozenset({_S.NOT_STARTED, _S.PREPARING, _S.QUEUED})
_UNTOLD = [status for status in _S if not status.is_terminal and status is not _S.CANCEL_REQUESTED]
_CANCELED_IN_ONE_GO = 100


class CallingOff:
    """Cancels the children of a sweep that is to end."""

    def __init__(self, runs: RunStore, cancel: Callable[[RunId], None]) -> None:
        self._runs, self._cancel = runs, cancel

    def go_on(self, sweep: RunRecord, *, why: str = "") -> bool:
        """Cancel the next ones, those that wait first. `why` becomes a warning of theirs. True where more are left."""
        untold = children_of(self._runs, sweep, _UNTOLD)
        untold.sort(key=lambda child: child.status not in _WAITING)
        for child in untold[:_CANCELED_IN_ONE_GO]:
            with suppress(NotFound):
                self._call_off(child, why)
        return len(untold) > _CANCELED_IN_ONE_GO

    def _call_off(self, child: RunRecord, why: str) -> None:
        said = {"warnings": (why,)} if why and why not in child.warnings else {}
        if child.status in _WAITING and not child.attempt:
            # Nothing of it was ever begun, so there is nothing to stop, to seal or to free.
            with suppress(Conflict):
                self._runs.move(child, _S.CANCELED, message="", **said)
                return
        if said:
            self._runs.update(child.id, **said)
        self._cancel(child.id)
        if child.status not in _WAITING:
            cancel_below(self._runs, child, self._cancel)
