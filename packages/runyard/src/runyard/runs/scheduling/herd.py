from collections import defaultdict
from collections.abc import Sequence

from runyard.errors import EnvironmentFailed, NotFound
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.stores import RunStore
from runyard.runs.scheduling.failed_builds import lasting_failure


class Herd:
    """Runs that want one environment, of which one builds it and the others wait: a supervisor for each would cost as
    much as the build. Remembered by a living service alone: one that begins anew has them find one another again."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self._builders: dict[str, RunId] = {}
        # By the run that they wait for, also after it has ended and another builds: each hears of its own.
        self._waiting: defaultdict[RunId, dict[RunId, None]] = defaultdict(dict)
        self._awaited: dict[RunId, RunId] = {}

    def builder(self, what: str, asking: RunId) -> RunId | None:
        """The run that `asking` waits for from now on; None where it is to build `what` itself."""
        self._waits_no_more(asking)
        builder = self._builders.get(what)
        if builder is not None and builder != asking and self._is_building(builder):
            self._waiting[builder][asking] = None
            self._awaited[asking] = builder
            return builder
        self._builders[what] = asking
        return None

    def require_hope(self, asking: RunId) -> None:
        """EnvironmentFailed where `asking` has waited for a build that failed, and would fail again."""
        builder = self._found(self._awaited.get(asking))
        error = lasting_failure(builder) if builder else None
        if builder and error:
            raise EnvironmentFailed(
                f"Run {builder.id}, which was to build the same environment, could not: {error.get('message')}",
                cause=error["messageParameters"]["cause"],
                said=error["messageParameters"].get("said", ""),
            )

    def waiting_for(self, run_id: RunId) -> Sequence[RunId]:
        return list(self._waiting.get(run_id, ()))

    def done(self, run_id: RunId) -> Sequence[RunId]:
        """The runs that waited for what that one has built, or was to build."""
        for what in [what for what, builder in self._builders.items() if builder == run_id]:
            del self._builders[what]
        waited = self.waiting_for(run_id)
        for one in waited:
            self._waits_no_more(one)
        return waited

    def _waits_no_more(self, run_id: RunId) -> None:
        builder = self._awaited.pop(run_id, None)
        if builder is not None:
            del self._waiting[builder][run_id]
            if not self._waiting[builder]:
                del self._waiting[builder]

    def _is_building(self, run_id: RunId) -> bool:
        run = self._found(run_id)
        return run is not None and run.status is RunStatus.PREPARING and bool(run.ticket)

    def _found(self, run_id: RunId | None) -> RunRecord | None:
        try:
            return self._runs.get(run_id) if run_id else None
        except NotFound:
            return None
