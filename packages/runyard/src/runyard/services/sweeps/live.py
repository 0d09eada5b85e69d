import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

from runyard.errors import NotFound
from runyard.model.runs import RunId, RunRecord
from runyard.model.sweeps import SWEEP_TYPE
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import MetricStore, RunStore, TrialStore
from runyard.services.journals import Delivered
from runyard.services.sweeps.live_sweep import LiveSweep, trial_number
from runyard.services.sweeps.loading import SweepStores
from runyard.services.sweeps.stops import Stops
from runyard.services.sweeps.sweep_log import SweepLogs

_MOST_KEPT = 100
_MOST_OTHERS = 10_000
_LOCKS = 16
log = logging.getLogger(__name__)


class LiveSweeps:
    """The sweeps that go on, each read from what is stored when it is first asked for, and kept while it is used.

    `cancel` begins to stop a run and returns at once.
    """

    def __init__(
        self,
        runs: RunStore,
        metrics: MetricStore,
        trials: TrialStore,
        logs: LogStore,
        clock: Clock,
        cancel: Callable[[RunId], None],
    ) -> None:
        self._runs, self.logs = runs, SweepLogs(logs, clock)
        self._stores = SweepStores(runs, metrics, trials, self.logs, Stops(runs, self.logs, clock, cancel))
        self._lock = threading.Lock()
        self._loading = [threading.Lock() for _ in range(_LOCKS)]
        # One that is dropped here while a thread still works with it is found there: there are never two of a sweep.
        self._kept: OrderedDict[RunId, LiveSweep] = OrderedDict()
        self._in_use: WeakValueDictionary[RunId, LiveSweep] = WeakValueDictionary()
        self._no_sweeps: OrderedDict[RunId, None] = OrderedDict()

    def of(self, sweep: RunRecord) -> LiveSweep:
        """The same for all threads. The first time it needs the whole record, and does what a killed service has
        decided and not done. Raises InvalidArgument for a run that is no sweep."""
        found = self._find(sweep.id)
        if found is not None:
            return found
        with self._loading[hash(sweep.id) % _LOCKS]:
            found = self._find(sweep.id)
            if found is not None:
                return found
            live = LiveSweep(sweep, self._stores)
            if sweep.status.is_terminal:
                return live
            self._keep(live)
        try:
            live.mend(sweep)
        except Exception:
            self.forget(sweep.id)
            raise
        return live

    def forget(self, sweep_id: RunId) -> None:
        """It has ended, or is gone; quiet when it is not known."""
        with self._lock:
            self._kept.pop(sweep_id, None)
            self._in_use.pop(sweep_id, None)

    def heard(self, run: RunRecord, delivered: Delivered) -> None:
        """What any run has logged; nearly free for those that are no trial. Never raises: it is stored already."""
        if run.parent_id is None or run.is_interactive or trial_number(run) < 0:
            return
        try:
            sweep = self._sweep_of(run.parent_id)
            if sweep is not None:
                sweep.heard(run, delivered)
        except Exception:  # the request has done its work; what is loaded anew is whole again
            self.forget(run.parent_id)
            log.exception("What a child logged did not reach its sweep, which is loaded anew.", extra={"run": run.id})

    def _sweep_of(self, parent_id: RunId) -> LiveSweep | None:
        found = self._find(parent_id)
        if found is not None or parent_id in self._no_sweeps:
            return found
        try:
            parent = self._runs.get(parent_id)
        except NotFound:
            return None
        if parent.type == SWEEP_TYPE:
            return None if parent.status.is_terminal else self.of(parent)
        with self._lock:
            self._no_sweeps[parent_id] = None
            if len(self._no_sweeps) > _MOST_OTHERS:
                self._no_sweeps.popitem(last=False)
        return None

    def _find(self, sweep_id: RunId) -> LiveSweep | None:
        with self._lock:
            found = self._in_use.get(sweep_id)
            if found is not None and sweep_id in self._kept:
                self._kept.move_to_end(sweep_id)
            elif found is not None:
                self._keep_locked(found)
            return found

    def _keep(self, live: LiveSweep) -> None:
        with self._lock:
            self._no_sweeps.pop(live.run_id, None)
            self._keep_locked(live)

    def _keep_locked(self, live: LiveSweep) -> None:
        self._in_use[live.run_id] = self._kept[live.run_id] = live
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
