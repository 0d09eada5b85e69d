from dataclasses import replace

import pytest

from runyard.core.errors import NotFound
from runyard.core.ports.stores import LineageStore, RunStore
from runyard.core.records.lineage import REFERENCE, DatasetUse, Direction
from runyard.core.records.runs import RunId, RunStatus
from runyard.testing.race import WRITERS, race
from runyard.testing.records import AT, a_run

READ = DatasetUse(RunId("r1"), Direction.INPUT, "mnist", "d1", "digits", 2, "Mount", AT)
LOOKED_UP = replace(READ, name="", mode=REFERENCE)
WRITTEN = replace(READ, direction=Direction.OUTPUT, name="out", dataset_id="d2", dataset_name="", dataset_version=1)


class LineageStoreSuite:
    """Contract tests of LineageStore. Subclass it and supply `store` and `runs`."""

    @pytest.fixture
    def store(self) -> LineageStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.fixture
    def runs(self) -> RunStore:
        raise NotImplementedError("supply a `runs` fixture in the subclass")

    @pytest.fixture(autouse=True)
    def two_runs(self, runs: RunStore) -> None:
        for run_id in ("r1", "r2"):
            runs.create(a_run(run_id))

    def test_what_a_run_read_and_wrote_comes_back_in_order(self, store: LineageStore) -> None:
        store.record([WRITTEN, READ])
        assert store.of_run(RunId("r1")) == [WRITTEN, READ]
        assert store.of_run(RunId("r2")) == []

    def test_a_dataset_knows_the_runs_that_used_it(self, store: LineageStore) -> None:
        second = replace(READ, run_id=RunId("r2"), name="again", mode="Download")
        store.record([READ, WRITTEN])
        store.record([second])
        assert store.of_dataset("d1") == [READ, second]
        assert store.of_dataset("unknown") == []

    def test_recording_twice_keeps_the_first(self, store: LineageStore) -> None:
        store.record([READ])
        store.record([replace(READ, mode="Download")])
        assert store.of_run(RunId("r1")) == [READ]

    def test_a_dataset_looked_up_is_left_out_when_it_is_an_input_already(self, store: LineageStore) -> None:
        store.record([READ])
        store.record([LOOKED_UP, replace(LOOKED_UP, dataset_id="d3")])
        assert [use.dataset_id for use in store.of_run(RunId("r1"))] == ["d1", "d3"]

    def test_a_run_may_look_up_what_it_wrote(self, store: LineageStore) -> None:
        looked_up = replace(LOOKED_UP, dataset_id=WRITTEN.dataset_id)
        store.record([WRITTEN, looked_up])
        assert store.of_run(RunId("r1")) == [WRITTEN, looked_up]

    def test_eight_at_once_record_one(self, store: LineageStore) -> None:
        race(lambda _: store.record([READ, LOOKED_UP]))
        assert store.of_run(RunId("r1")) == [READ]
        race(lambda number: store.record([replace(READ, name=f"n{number}")]))
        assert len(store.of_run(RunId("r1"))) == 1 + WRITERS

    def test_an_unknown_run_is_not_found(self, store: LineageStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.record([replace(READ, run_id=RunId("nobody"))])
        assert store.of_run(RunId("nobody")) == []

    def test_it_goes_with_its_run(self, store: LineageStore, runs: RunStore) -> None:
        store.record([READ, replace(READ, run_id=RunId("r2"))])
        runs.move(runs.get(RunId("r1")), RunStatus.CANCELED)
        runs.delete(RunId("r1"))
        assert [use.run_id for use in store.of_dataset("d1")] == ["r2"]
