import contextlib
import itertools
from collections.abc import Callable, Sequence

from runyard.errors import NotFound
from runyard.model.nodes import Gang
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.stores import RunStore
from runyard.services.places import Places


class Queues:
    """Gives waiting runs their nodes: on each cluster first come, first served."""

    def __init__(
        self,
        runs: RunStore,
        places: Places,
        start: Callable[[RunRecord, Gang], RunRecord],
        fail: Callable[[RunId, str], object],
    ) -> None:
        self._runs, self._places, self._start, self._fail = runs, places, start, fail

    def serve(self, run: RunRecord) -> None:
        """A run takes its nodes only when all before it on the cluster have theirs."""
        queue = self._queue_of(run)
        while queue:
            waiting = queue[0]
            gang = self._places.hold(waiting)
            if gang.nodes:
                self._start(waiting, gang)
            elif self._places.cluster_of(waiting) is None:
                self._fail(waiting.id, f"There is no compute target '{waiting.target}' any more.")
            else:
                self._say(waiting, gang.waits_for)
                break
            queue = queue[1:]
        for ahead, behind in itertools.pairwise(queue):  # they wait for it as much as for nodes
            self._say(behind, f"Waiting for nodes of '{run.target}' behind run {ahead.id}.")

    def _queue_of(self, run: RunRecord) -> Sequence[RunRecord]:
        wanted = (run.workspace, run.target, RunStatus.QUEUED)
        return [one for one in self._runs.unfinished() if (one.workspace, one.target, one.status) == wanted]

    def _say(self, run: RunRecord, message: str) -> None:
        if run.message != message:
            with contextlib.suppress(NotFound):
                self._runs.update(run.id, message=message)
