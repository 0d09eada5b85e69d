from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.core.errors import EnvironmentFailed
from runyard.core.lookups import find_run
from runyard.core.ports.stores import RunStore
from runyard.core.records.environments import FailureCause
from runyard.core.records.runs import RunId, RunRecord, RunStatus


class BuildCoalescer:
    """Lets one of several runs that need the same environment build it, while the others wait.

    A supervisor for each waiting run would cost as much as the build. Kept in memory only: after a restart of the
    service the runs ask again.
    """

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self._builders: dict[str, RunId] = {}
        # By builder. Kept after its end, even if another run builds by then: each waiting run is told of its own.
        self._waiting: defaultdict[RunId, dict[RunId, None]] = defaultdict(dict)
        self._builder_of: dict[RunId, RunId] = {}

    def builder(self, what: str, run_id: RunId) -> RunId | None:
        """Return the run to wait for; None if `run_id` has to build `what` itself."""
        self._stop_waiting(run_id)
        builder = self._builders.get(what)
        if builder is not None and builder != run_id and self._is_building(builder):
            self._waiting[builder][run_id] = None
            self._builder_of[run_id] = builder
            return builder
        self._builders[what] = run_id
        return None

    def raise_if_build_failed(self, run_id: RunId) -> None:
        """Raise EnvironmentFailed if the awaited build failed with a permanent cause."""
        builder = self._find(self._builder_of.get(run_id))
        error = permanent_build_failure(builder) if builder else None
        if builder and error:
            raise EnvironmentFailed(
                f"Run {builder.id}, which was to build the same environment, could not: {error.get('message')}",
                cause=error["messageParameters"]["cause"],
                said=error["messageParameters"].get("said", ""),
            )

    def waiting_for(self, run_id: RunId) -> Sequence[RunId]:
        return list(self._waiting.get(run_id, ()))

    def done(self, run_id: RunId) -> Sequence[RunId]:
        """Forget the builder; return the runs that waited for it."""
        for what in [what for what, builder in self._builders.items() if builder == run_id]:
            del self._builders[what]
        waited = self.waiting_for(run_id)
        for one in waited:
            self._stop_waiting(one)
        return waited

    def _stop_waiting(self, run_id: RunId) -> None:
        builder = self._builder_of.pop(run_id, None)
        if builder is not None:
            del self._waiting[builder][run_id]
            if not self._waiting[builder]:
                del self._waiting[builder]

    def _is_building(self, run_id: RunId) -> bool:
        run = self._find(run_id)
        return run is not None and run.status is RunStatus.PREPARING and bool(run.ticket)

    def _find(self, run_id: RunId | None) -> RunRecord | None:
        return find_run(self._runs, run_id) if run_id else None


TRANSIENT_CAUSES = frozenset(
    {
        FailureCause.NETWORK,
        FailureCause.DISK_FULL,
        FailureCause.KILLED,
        FailureCause.ENGINE_FAILED,
        FailureCause.REGISTRY_FAILED,
        FailureCause.UNKNOWN,
    }
    | {FailureCause.WRONG_CREDENTIALS, FailureCause.CONDA_FAILED}
)
"""Causes that may be gone at the next try: other runs with the same environment may succeed."""


def build_failure(run: RunRecord) -> Mapping[str, Any] | None:
    """Error of a run whose environment could not be built; None for all other runs."""
    error = (run.error or {}).get("error")
    if run.status is not RunStatus.FAILED or not isinstance(error, Mapping):
        return None
    return error if _cause_in(error) in set(FailureCause) else None


def permanent_build_failure(run: RunRecord) -> Mapping[str, Any] | None:
    """Error of a build that would fail for every other run too; None otherwise."""
    error = build_failure(run)
    return error if error is not None and _cause_in(error) not in TRANSIENT_CAUSES else None


def _cause_in(error: Mapping[str, Any]) -> str:
    facts = error.get("messageParameters")
    return str(facts.get("cause")) if isinstance(facts, Mapping) else ""
