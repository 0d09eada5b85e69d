import contextlib
import itertools
from collections.abc import Callable, Sequence

from runyard.errors import NotFound
from runyard.model.nodes import Gang
from runyard.model.runs import QueuedRun, RunId, RunRecord, RunStatus
from runyard.ports.stores import RunStore
from runyard.services.places import Places

_MOST_TOLD = 20
"""So many learn whom they wait for; those behind them have as long to wait for either."""


class Queues:
    """Gives waiting runs their nodes: on each cluster first come, first served."""

    def __init__(
        self,
        runs: RunStore,
        places: Places,
        start: Callable[[RunRecord, Gang], RunRecord],
        fail: Callable[[RunId, str], object],
        lets_children_start: Callable[[RunId], bool],
    ) -> None:
        self._runs, self._places, self._start, self._fail = runs, places, start, fail
        self._lets_children_start = lets_children_start

    def serve(self, run: RunRecord) -> None:
        """A run takes its nodes only when all before it on the cluster have theirs."""
        queue = self._wanted(self._runs.queue(run.workspace, run.target))
        while queue:
            waiting = self._runs.get(queue[0].id)
            if waiting.status is not RunStatus.QUEUED:  # canceled this very moment
                queue = queue[1:]
                continue
            gang = self._places.hold(waiting)
            if gang.nodes:
                self._start(waiting, gang)
            elif self._places.cluster_of(waiting) is None:
                self._fail(waiting.id, f"There is no compute target '{waiting.target}' any more.")
            else:
                self._say(waiting, gang.waits_for)
                break
            queue = queue[1:]
        for ahead, behind in itertools.pairwise(queue[:_MOST_TOLD]):  # they wait for it as much as for nodes
            self._say(behind, f"Waiting for nodes of '{run.target}' behind run {ahead.id}.")

    def _wanted(self, queue: Sequence[QueuedRun]) -> Sequence[QueuedRun]:
        """Without those whose parent lets none of its children start any more."""
        parents = {run.parent_id for run in queue if run.parent_id is not None}
        over = {parent_id for parent_id in parents if not self._lets_children_start(parent_id)}
        return [run for run in queue if run.parent_id not in over]

    def _say(self, run: RunRecord | QueuedRun, message: str) -> None:
        if run.message != message:
            with contextlib.suppress(NotFound):
                self._runs.update(run.id, message=message)
