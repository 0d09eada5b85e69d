from collections import defaultdict
from collections.abc import Sequence

from runyard.errors import EnvironmentFailed, NotFound
from runyard.model.causes import Cause
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.stores import RunStore

MENDED_BY_ANOTHER_TRY = frozenset(
    {Cause.NETWORK, Cause.DISK_FULL, Cause.KILLED, Cause.ENGINE_FAILED, Cause.REGISTRY_FAILED, Cause.UNKNOWN}
    | {Cause.WRONG_CREDENTIALS, Cause.CONDA_FAILED}
)
"""Causes that may be gone the next time: with them one run's failure says nothing of the others."""


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

    def require_hope(self, what: str, asking: RunId) -> None:
        """EnvironmentFailed where `asking` has waited for a build that failed, and would fail again."""
        if asking not in self._waiting.get(what, {}):
            return
        builder = self._found(self._builders.get(what))
        error = ((builder.error or {}).get("error") or {}) if builder and builder.status is RunStatus.FAILED else {}
        facts = error.get("messageParameters") or {}
        if builder and facts.get("cause") in set(Cause) - MENDED_BY_ANOTHER_TRY:
            raise EnvironmentFailed(
                f"Run {builder.id}, which was to build the same environment, could not: {error.get('message')}",
                cause=facts["cause"],
                said=facts.get("said", ""),
            )

    def waiting_for(self, run_id: RunId) -> Sequence[RunId]:
        built = [what for what, builder in self._builders.items() if builder == run_id]
        return [one for what in built for one in self._waiting.get(what, {})]

    def done(self, run_id: RunId) -> Sequence[RunId]:
        """The runs that waited for what that one has built."""
        built = [what for what, builder in self._builders.items() if builder == run_id]
        for what in built:
            del self._builders[what]
        return [one for what in built for one in self._waiting.pop(what, {})]

    def _is_building(self, run_id: RunId) -> bool:
        run = self._found(run_id)
        return run is not None and run.status is RunStatus.PREPARING and bool(run.ticket)

    def _found(self, run_id: RunId | None) -> RunRecord | None:
        try:
            return self._runs.get(run_id) if run_id else None
        except NotFound:
            return None
