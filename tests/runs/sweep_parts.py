"""Sweeps on real stores, without a controller: tests make the children and deliver what they log."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runyard.core.principal import OWNER
from runyard.core.records.runs import RunEvent, RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import Trial
from runyard.data.datasets.lineage import Lineage
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.history.journals import Journals
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.registry import RunKinds, load_kinds
from runyard.runs.kinds.sweep.checks import SWEEP_TYPE
from runyard.runs.kinds.sweep.live_sweep import LiveSweep, LiveSweeps
from runyard.runs.kinds.sweep.log import SWEEP_LOG
from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.sql.stores import open_stores
from runyard.testing.clock import FakeClock
from runyard.testing.records import a_run, a_workspace
from tests.grants import access_to

SWEEP = RunId("HD_1")
METRIC = "accuracy"
BANDIT = {"name": "Bandit", "properties": {"slack_factor": 0.1, "evaluation_interval": 1, "delay_evaluation": 0}}


class Killed(BaseException):
    """The service is gone: nothing that it would have done next is done."""


class SweepYard:
    """One home. `restart` is a new service on it; what the one before had in memory is lost."""

    def __init__(self, folder: Path) -> None:
        self.stores = open_stores(f"sqlite:///{folder}/runyard.db")
        self.logs = FileLogStore(folder / "logs")
        self.clock, self._folder = FakeClock(), folder
        self.canceled: list[RunId] = []
        self._ends: dict[str, int] = {}
        self._logged_at = 0.0
        self.stores.assets.create_workspace(a_workspace())
        self.restart()

    def restart(self, killed_after: "Callable[[Any], Any]" = lambda part: part) -> None:
        """`killed_after` wraps what is written to."""
        stores = self.stores
        runs, metrics = killed_after(stores.runs), killed_after(stores.metrics)
        trials, logs = killed_after(stores.trials), killed_after(self.logs)
        access = access_to(stores)
        tools = KindTools(
            runs=runs,
            logs=logs,
            metrics=metrics,
            trials=trials,
            journals=Journals(runs, metrics, self.clock, access),
            inputs=DirectInputs(stores.assets, Lineage(stores.lineage, stores.assets, runs, self.clock, access)),
            clock=self.clock,
            access=access,
            home=self._folder,
        )
        tools.controller = killed_after(PlayedController(self.cancel, load_kinds(tools)))
        self.live = LiveSweeps(tools)
        self.journals = Journals(runs, metrics, self.clock, access, self.live.logged)

    def cancel(self, run_id: RunId) -> None:
        self.canceled.append(run_id)
        self.stores.runs.move(self.stores.runs.get(run_id), RunStatus.CANCEL_REQUESTED)

    def submit(self, sweep_id: RunId = SWEEP, **asked: Any) -> LiveSweep:
        self.stores.runs.create(a_run(sweep_id, type=SWEEP_TYPE, definition={"runyard": {"sweep": a_sweep(**asked)}}))
        return self.sweep(sweep_id)

    def sweep(self, sweep_id: RunId = SWEEP) -> LiveSweep:
        return self.live.of(self.stores.runs.get(sweep_id))

    def children(self, count: int, sweep_id: RunId = SWEEP) -> list[RunId]:
        """That many more, running."""
        return [self.child(trial) for trial in self.sweep(sweep_id).sample(count)]

    def child(self, trial: Trial, **fields: Any) -> RunId:
        self.stores.runs.create(a_run(trial.child_id, RunStatus.RUNNING, parent_id=trial.sweep_id, **fields))
        return trial.child_id

    def log(self, run_id: RunId, *values: Any, name: str = METRIC, rank: int = 0, kind: str = "m") -> None:
        """What a process of the run writes to its journal, delivered at once."""
        self.deliver(run_id, rank, *(self.line(name, value, kind) for value in values))

    def deliver(self, run_id: RunId, rank: int, *lines: str) -> None:
        journal = f"{run_id}~{rank}-1-x"
        start, data = self._ends.get(journal, 0), "".join(lines).encode()
        self._ends[journal] = self.journals.append(OWNER, run_id, journal, start, data)

    def line(self, name: str, value: Any, kind: str = "m") -> str:
        self._logged_at += 1.0
        step = [None] if kind == "m" else []
        return json.dumps([kind, name, value, *step, self._logged_at]) + "\n"

    def end(self, run_id: RunId, status: RunStatus = RunStatus.COMPLETED, **fields: Any) -> RunRecord:
        return self.stores.runs.move(self.stores.runs.get(run_id), status, **fields)

    def run(self, run_id: RunId) -> RunRecord:
        return self.stores.runs.get(run_id)

    def decisions(self, run_id: RunId) -> list[RunEvent]:
        return [event for event in self.stores.runs.events(run_id) if event.kind == "policy"]

    def lines(self, sweep_id: RunId = SWEEP) -> list[str]:
        """The texts of its log, without their marks and times."""
        log = self.logs.read(sweep_id, SWEEP_LOG).decode()
        return [line.partition("][")[2].removesuffix("<END>") for line in log.splitlines()]

    def close(self) -> None:
        self.stores.close()


def opened(folder: Path) -> Iterator[SweepYard]:
    yard = SweepYard(folder)
    yield yard
    yard.close()


class PlayedController:
    """Cancels as the test says, and knows the kinds of runs."""

    def __init__(self, cancel: Callable[[RunId], None], kinds: RunKinds) -> None:
        self.cancel, self.kinds = cancel, kinds


class KilledAfter:
    """Lets that many writes happen, to whichever of the parts it wraps; then the service is gone."""

    _WRITES = frozenset({"append", "stop", "update", "add_event", "cancel", "add"})

    def __init__(self, writes: int) -> None:
        self._left = writes

    def __call__(self, part: Any) -> Any:
        return _Dying(part, self)

    def around(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            if name in self._WRITES:
                if self._left == 0:
                    raise Killed(name)
                self._left -= 1
            return method(*arguments, **named)

        return called


class _Dying:
    def __init__(self, part: Any, killed: KilledAfter) -> None:
        self._part, self._killed = part, killed

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return self._killed.around(name, found) if callable(found) else found


def a_sweep(**changes: Any) -> dict[str, Any]:
    return {
        "sampling": {"name": "RANDOM", "parameter_space": {"lr": ["uniform", [0, 1]]}, "properties": {"seed": 1}},
        "policy": BANDIT,
        "primary_metric": {"name": METRIC, "goal": "maximize"},
        "max_total_runs": 20,
        "max_concurrent_runs": 4,
        "max_duration_minutes": 60,
    } | changes
