import contextlib
from collections.abc import Callable, Sequence
from itertools import pairwise

from runyard.errors import EngineError, NotFound
from runyard.model.nodes import Gang
from runyard.model.runs import QueuedRun, RunId, RunRecord, RunStatus
from runyard.ports.stores import RunStore
from runyard.runs.kinds.registry import RunKinds
from runyard.runs.scheduling.places import Places

_LOOKED_AT = 20
"""So many are read at a time, and learn whom they wait for: what a queue costs does not grow with its length."""


class Queues:
    """Gives waiting runs their nodes: on each cluster first come, first served."""

    def __init__(
        self,
        runs: RunStore,
        places: Places,
        start: Callable[[RunRecord, Gang], RunRecord],
        hand_over: Callable[[RunRecord], RunRecord],
        fail: Callable[[RunId, str], object],
        failing: Callable[[RunId], contextlib.AbstractContextManager[None, bool | None]],
        kinds: RunKinds,
    ) -> None:
        """Around whatever is done for one run, `failing` has what goes wrong end that run."""
        self._runs, self._places, self._start, self._fail = runs, places, start, fail
        self._hand_over = hand_over
        self._failing, self._kinds = failing, kinds

    def serve(self, workspace: str, target: str) -> None:
        """A run takes its nodes only when all before it on the cluster have theirs. One that has a queue of its own
        gets all of them at once."""
        try:
            serve = self._hand_over_first if self._places.queues_itself(workspace, target) else self._serve_first
        except EngineError as error:  # its kind is missing or broken: they wait until that is put right
            for waiting in self._runs.queue(workspace, target, limit=_LOOKED_AT):
                self._say(waiting, str(error))
            return
        while serve(workspace, target):
            pass

    def _hand_over_first(self, workspace: str, target: str) -> bool:
        """Whether all that were looked at have left the queue, and others may be behind them."""
        looked_at = self._runs.queue(workspace, target, limit=_LOOKED_AT)
        handed_over = [run for run in self._wanted(looked_at) if self._is_handed_over(run)]
        return len(handed_over) == _LOOKED_AT

    def _is_handed_over(self, waiting: QueuedRun) -> bool:
        with self._failing(waiting.id):
            run = self._runs.get(waiting.id)
            if run.status is RunStatus.QUEUED:
                self._hand_over(run)
            return True
        return False

    def _serve_first(self, workspace: str, target: str) -> bool:
        """Whether all that were looked at have left the queue, and others may be behind them."""
        looked_at = self._runs.queue(workspace, target, limit=_LOOKED_AT)
        wanted = self._wanted(looked_at)
        left = next((place for place, run in enumerate(wanted) if not self._leaves(run)), len(wanted))
        for ahead, behind in pairwise(wanted[left:]):
            if ahead.parent_id is None or ahead.parent_id != behind.parent_id:
                # It waits for that one as much as for nodes; children of one sweep need not be told.
                self._say(behind, f"Waiting for nodes of '{target}' behind run {ahead.id}.")
        return bool(wanted) and left == len(wanted) and len(looked_at) == _LOOKED_AT

    def _leaves(self, first: QueuedRun) -> bool:
        """Whether the first of a queue has got its nodes, or has gone from it otherwise."""
        with self._failing(first.id):
            run = self._runs.get(first.id)
            if run.status is not RunStatus.QUEUED:  # canceled this very moment
                return True
            gang = self._places.hold(run)
            if gang.nodes:
                self._start(run, gang)
            elif self._places.cluster_of(run) is None:
                self._fail(run.id, f"There is no compute target '{run.target}' any more.")
            else:
                self._say(run, gang.waits_for)
                return False
            return True
        return False  # somebody changed it this very moment, or it has failed: both wake the controller again

    def _wanted(self, queue: Sequence[QueuedRun]) -> Sequence[QueuedRun]:
        """Without those whose parent lets none of its children start any more."""
        parents = {run.parent_id for run in queue if run.parent_id is not None}
        over = {parent_id for parent_id in parents if not self._kinds.let_start(parent_id)}
        return [run for run in queue if run.parent_id not in over]

    def _say(self, run: RunRecord | QueuedRun, message: str) -> None:
        if run.message != message:
            with contextlib.suppress(NotFound):
                self._runs.update(run.id, message=message)
