import logging
import threading

from runyard.errors import NotFound
from runyard.model.runs import RunId, RunRecord
from runyard.runs.history.journals import Delivered
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.checks import is_sweep
from runyard.runs.kinds.sweep.live_sweep import LiveSweep, trial_number
from runyard.runs.kinds.sweep.loading import SweepStores
from runyard.runs.kinds.sweep.log import SweepLogs
from runyard.runs.kinds.sweep.stopping import Stops

_MOST_NO_SWEEPS = 10_000
log = logging.getLogger(__name__)


class LiveSweeps:
    """Unfinished sweeps: one `LiveSweep` for each, shared by all threads from its first use to its end.

    A lookup takes no lock. `_loading` is held while a sweep is read from the store, so that there are never two
    objects for one sweep. It is taken before the lock of a sweep.
    """

    def __init__(self, tools: KindTools) -> None:
        self._runs = tools.runs
        logs = SweepLogs(tools.logs, tools.clock)
        self._stores = SweepStores(tools.runs, tools.metrics, tools.trials, logs, Stops(tools, logs))
        self._loading = threading.Lock()
        self._kept: dict[RunId, LiveSweep] = {}
        self._no_sweeps: set[RunId] = set()

    def of(self, sweep: RunRecord) -> LiveSweep:
        """LiveSweep of a run. The first call loads it from the whole record and catches up with what a killed service
        left undone. A finished sweep is loaded but not kept. Raises InvalidArgument for a run that is not a sweep."""
        found = self.find(sweep.id)
        if found is not None:
            return found
        with self._loading:
            found = self.find(sweep.id)
            if found is not None:
                return found
            live = LiveSweep(sweep, self._stores)
            if sweep.status.is_terminal:
                return live
            self._kept[sweep.id] = live
        try:
            live.catch_up(sweep)
        except Exception:
            self.forget(sweep.id)
            raise
        return live

    def find(self, sweep_id: RunId) -> LiveSweep | None:
        """A sweep that is loaded already; None otherwise."""
        return self._kept.get(sweep_id)

    def forget(self, sweep_id: RunId) -> None:
        """Drop a sweep that has ended, is gone or must be loaded again; does nothing if it is unknown."""
        self._kept.pop(sweep_id, None)

    def logged(self, run: RunRecord, delivered: Delivered) -> None:
        """Handle what a run has logged; cheap for runs that are not trials. Never raises: it is stored already."""
        if run.parent_id is None or run.is_interactive or trial_number(run) < 0:
            return
        try:
            sweep = self._sweep_of(run.parent_id)
            if sweep is not None:
                sweep.logged(run, delivered)
        except Exception:  # the metrics are stored; loading the sweep again makes it consistent
            self.forget(run.parent_id)
            log.exception("What a child logged did not reach its sweep, which is loaded anew.", extra={"run": run.id})

    def _sweep_of(self, parent_id: RunId) -> LiveSweep | None:
        found = self.find(parent_id)
        if found is not None or parent_id in self._no_sweeps:
            return found
        try:
            parent = self._runs.get(parent_id)
        except NotFound:
            return None
        if is_sweep(parent):
            return None if parent.status.is_terminal else self.of(parent)
        if len(self._no_sweeps) >= _MOST_NO_SWEEPS:
            self._no_sweeps.clear()
        self._no_sweeps.add(parent_id)
        return None
