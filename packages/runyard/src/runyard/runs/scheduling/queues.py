import contextlib
from collections.abc import Callable, Sequence
from itertools import pairwise

from runyard.compute.clusters import Clusters
from runyard.core.errors import EngineError, NotFound
from runyard.core.ports.stores import RunStore
from runyard.core.records.nodes import NodeAllocation
from runyard.core.records.runs import QueuedRun, RunId, RunRecord, RunStatus
from runyard.runs.kinds.registry import RunKinds

_PAGE_SIZE = 20
"""Runs read at a time, so that the cost of a pass does not grow with the length of the queue."""


class RunQueues:
    """Gives queued runs their nodes, in order of submission for each cluster."""

    def __init__(
        self,
        runs: RunStore,
        clusters: Clusters,
        start: Callable[[RunRecord, NodeAllocation], RunRecord],
        hand_over: Callable[[RunRecord], RunRecord],
        fail: Callable[[RunId, str], object],
        failing_run: Callable[[RunId], contextlib.AbstractContextManager[None, bool | None]],
        kinds: RunKinds,
    ) -> None:
        """`failing_run(run_id)` is a context in which a RunyardError fails that run."""
        self._runs, self._clusters, self._start, self._fail = runs, clusters, start, fail
        self._hand_over = hand_over
        self._failing_run, self._kinds = failing_run, kinds

    def serve(self, workspace: str, target: str) -> None:
        """Start as many queued runs as there are nodes, in order. A cluster with its own queue gets all of them."""
        try:
            serve = self._hand_over_first if self._clusters.queues_itself(workspace, target) else self._serve_first
        except EngineError as error:  # the compute kind is missing or broken: the runs wait until it is repaired
            for waiting in self._runs.queue(workspace, target, limit=_PAGE_SIZE):
                self._set_message(waiting, str(error))
            return
        while serve(workspace, target):
            pass

    def _hand_over_first(self, workspace: str, target: str) -> bool:
        """Submit one page of runs to the cluster's own queue; True if there may be more."""
        page = self._runs.queue(workspace, target, limit=_PAGE_SIZE)
        handed_over = [run for run in self._wanted(page) if self._is_handed_over(run)]
        return len(handed_over) == _PAGE_SIZE

    def _is_handed_over(self, waiting: QueuedRun) -> bool:
        with self._failing_run(waiting.id):
            run = self._runs.get(waiting.id)
            if run.status is RunStatus.QUEUED:
                self._hand_over(run)
            return True
        return False

    def _serve_first(self, workspace: str, target: str) -> bool:
        """Start one page of runs; True if all of them left the queue and there may be more."""
        page = self._runs.queue(workspace, target, limit=_PAGE_SIZE)
        wanted = self._wanted(page)
        left = next((index for index, run in enumerate(wanted) if not self._leaves(run)), len(wanted))
        for ahead, behind in pairwise(wanted[left:]):
            if ahead.parent_id is None or ahead.parent_id != behind.parent_id:
                # Children of the same sweep are not told: they may be thousands, and each message is a write.
                self._set_message(behind, f"Waiting for nodes of '{target}' behind run {ahead.id}.")
        return bool(wanted) and left == len(wanted) and len(page) == _PAGE_SIZE

    def _leaves(self, first: QueuedRun) -> bool:
        """Start the first run of the queue; True if it has left the queue, whatever the reason."""
        with self._failing_run(first.id):
            run = self._runs.get(first.id)
            if run.status is not RunStatus.QUEUED:  # canceled this very moment
                return True
            allocation = self._clusters.hold(run)
            if allocation.nodes:
                self._start(run, allocation)
            elif self._clusters.cluster_of(run) is None:
                self._fail(run.id, f"There is no compute target '{run.target}' any more.")
            else:
                self._set_message(run, allocation.waits_for)
                return False
            return True
        return False  # changed by another thread, or failed: both wake the controller again

    def _wanted(self, queue: Sequence[QueuedRun]) -> Sequence[QueuedRun]:
        """Leave out runs whose parent does not let children start any more."""
        parents = {run.parent_id for run in queue if run.parent_id is not None}
        over = {parent_id for parent_id in parents if not self._kinds.let_start(parent_id)}
        return [run for run in queue if run.parent_id not in over]

    def _set_message(self, run: RunRecord | QueuedRun, message: str) -> None:
        if run.message != message:
            with contextlib.suppress(NotFound):
                self._runs.update(run.id, message=message)
