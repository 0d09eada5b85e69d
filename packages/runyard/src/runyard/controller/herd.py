from collections import defaultdict
from collections.abc import Sequence

from runyard.errors import NotFound
from runyard.model.runs import RunId, RunStatus
from runyard.ports.stores import RunStore


class Herd:
    """Runs that want one environment, of which one builds it and the others wait: a supervisor for each would cost as
    much as the build. Remembered by a living service alone: one that begins anew has them find one another again."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self._builders: dict[str, RunId] = {}
        self._waiting: defaultdict[str, dict[RunId, None]] = defaultdict(dict)

    def builder(self, what: str, asking: RunId) -> RunId | None:
        """The run that `asking` waits for from now on; None where it is to build `what` itself."""
        builder = self._builders.get(what)
        if builder is not None and builder != asking and self._is_building(builder):
            self._waiting[what][asking] = None
            return builder
        self._builders[what] = asking
        self._waiting[what].pop(asking, None)
        return None

    def done(self, run_id: RunId) -> Sequence[RunId]:
        """The runs that waited for what that one has built."""
        built = [what for what, builder in self._builders.items() if builder == run_id]
        for what in built:
            del self._builders[what]
        return [one for what in built for one in self._waiting.pop(what, {})]

    def _is_building(self, run_id: RunId) -> bool:
        try:
            run = self._runs.get(run_id)
        except NotFound:
            return False
        return run.status is RunStatus.PREPARING and bool(run.ticket)
