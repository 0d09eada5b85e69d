from collections import Counter
from collections.abc import Mapping
from typing import Any

from runyard.core.records.runs import RunId, RunRecord, RunStatus, run_of
from runyard.runs.children import children_of
from runyard.runs.kinds.sweep.checks import SWEEP_TYPE
from runyard.runs.kinds.sweep.log import SWEEP_LOG
from runyard.testing.records import a_run, scalars
from tests.runs.scheduling.scripted import Stage

SWEEP = RunId("HD_s")
METRIC = "accuracy"
AS_IT_IS = {"userManagedDependencies": True, "interpreterPath": "/usr/bin/python3"}
"""The Python of children for whom nothing is built."""
_MOST_TURNS = 500


class SweepStage(Stage):
    """A sweep on real stores; its children do what the test says."""

    def submit(
        self, *, sweep_id: str = SWEEP, target: str = "local", python: Mapping[str, Any] = AS_IT_IS, **asked: Any
    ) -> RunRecord:
        definition = {
            "target": target,
            "script": "train.py",
            "arguments": ["--epochs", "3", "--lr", "0.5"],
            "environment": {"python": python},
            "runyard": {"cancel_grace_seconds": 0, "sweep": a_sweep(**asked)},
        }
        self.stores.runs.create(a_run(sweep_id, type=SWEEP_TYPE, target=target, definition=definition))
        self.controller.reconcile()
        return self.get(sweep_id)

    @property
    def sweep(self) -> RunRecord:
        return self.get(SWEEP)

    def children(self) -> list[RunRecord]:
        """By number."""
        found = children_of(self.stores.runs, self.get(SWEEP))
        return sorted(found, key=lambda child: child.sequence)

    def statuses(self) -> Counter[RunStatus]:
        return Counter(child.status for child in self.children())

    def log(self, child: RunRecord, *values: Any, name: str = METRIC) -> None:
        self.stores.metrics.append(child.id, f"{child.id}~0-1-x", 0, len(values), [scalars(name, *values)])

    def ended(self, child: RunRecord, outcome: str = "completed", **facts: Any) -> None:
        """Its supervisor tells that; the controller hears it as it does in life."""
        self.tell("ended", attempt=child.ticket, outcome=outcome, **facts)

    def failed(self, child: RunRecord, message: str = "ValueError: no") -> None:
        self.ended(child, "failed", error={"code": "UserError", "message": message})

    def play(self) -> None:
        """Every child that is started completes, until the sweep has ended."""
        for _ in range(_MOST_TURNS):
            if self.sweep.status.is_terminal:
                return
            self.turn()
        raise AssertionError(f"The sweep does not end: {self.sweep}")

    def turn(self) -> None:
        """The controller looks; then all that goes on ends as it was asked to."""
        self.controller.reconcile()
        for child in self.children():
            if child.status is RunStatus.CANCEL_REQUESTED:
                self.ended(child, "canceled")
            elif child.status in (RunStatus.STARTING, RunStatus.RUNNING) and self._is_started(child):
                self.ended(child)

    def starts(self) -> Counter[RunId]:
        """In how many attempts the engine has started each run."""
        return Counter(run_of(plan.attempt_id) for plan in self.engine.plans.values())

    def lines(self) -> str:
        return self.logs.read(SWEEP, SWEEP_LOG).decode()

    def _is_started(self, child: RunRecord) -> bool:
        return any(plan.attempt_id == child.ticket for plan in self.engine.plans.values())


def a_sweep(**changes: Any) -> dict[str, Any]:
    return {
        "sampling": {"name": "RANDOM", "parameter_space": {"lr": ["uniform", [0, 1]]}, "properties": {"seed": 1}},
        "policy": {"name": "Default", "properties": {}},
        "primary_metric": {"name": METRIC, "goal": "maximize"},
        "max_total_runs": 5,
        "max_concurrent_runs": 2,
        "max_duration_minutes": 60,
        **changes,
    }
