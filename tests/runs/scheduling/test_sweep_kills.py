"""A service that is killed before any one of its writes, and the next one on the same home."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runyard.core.records.runs import RunStatus
from runyard.storage.sql.stores import open_stores
from tests.runs.scheduling.sweep_stage import SWEEP, SweepStage
from tests.runs.sweep_parts import Killed, KilledAfter

pytestmark = pytest.mark.slow

_S = RunStatus


class KilledAnywhere(KilledAfter):
    """Also when runs are made, moved and started."""

    _WRITES = KilledAfter._WRITES | {"create", "move", "submit", "seal"}

    def around(self, name: str, method: Any) -> Any:
        return super().around(name, method) if name in self._WRITES else method


def killed_at_each_write(
    folder: Path, work: Callable[[SweepStage], None], prepare: Callable[[SweepStage], None] = lambda stage: None
) -> Iterator[SweepStage]:
    """The stage after each kill in the middle of `work`, with a new service on it; none after the last write."""
    for writes in itertools.count():
        place = folder / str(writes)
        place.mkdir()
        with closing(open_stores(f"sqlite:///{place}/runyard.db")) as stores:
            stage = SweepStage(stores, place)
            prepare(stage)
            stage.open(KilledAnywhere(writes))
            try:
                work(stage)
            except Killed:
                stage.open()
                yield stage
            else:
                return


def test_a_sweep_loses_no_child_and_starts_none_twice(tmp_path: Path) -> None:
    def whole_sweep(stage: SweepStage) -> None:
        stage.submit(max_total_runs=3)
        stage.play()

    kills = 0
    for stage in killed_at_each_write(tmp_path, whole_sweep):
        kills += 1
        stage.play()
        assert stage.sweep.status is _S.COMPLETED
        assert [child.id for child in stage.children()] == ["HD_s_0", "HD_s_1", "HD_s_2"]
        assert stage.statuses() == {_S.COMPLETED: 3}
        assert stage.starts() == {"HD_s_0": 1, "HD_s_1": 1, "HD_s_2": 1}
        values = [trial.values["lr"] for trial in stage.stores.trials.list(SWEEP)]
        for number in range(3):
            assert all(f"HD_s_{number} {step}" in stage.lines() for step in ("sampled", "scheduled", "ended"))
        assert "is begun" in stage.lines()
        assert values == [json.loads(child.tags["hyperparameters"])["lr"] for child in stage.children()]
    assert kills > 20


def test_a_sweep_that_is_called_off_leaves_no_child_running(tmp_path: Path) -> None:
    def going_on(stage: SweepStage) -> None:
        stage.cluster("one", max_nodes=1)
        stage.submit(target="one", max_concurrent_runs=5)
        stage.controller.reconcile()

    def call_off(stage: SweepStage) -> None:
        stage.controller.cancel(SWEEP)
        stage.play()

    kills = 0
    for stage in killed_at_each_write(tmp_path, call_off, going_on):
        kills += 1
        call_off(stage)  # who got no answer asks again
        assert stage.sweep.status is _S.CANCELED
        assert stage.statuses() == {_S.CANCELED: 5}
        assert stage.starts() == {"HD_s_0": 1}
    assert kills > 10
