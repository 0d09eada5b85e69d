from dataclasses import replace
from datetime import timedelta

import pytest

from runyard.core.errors import NotFound
from runyard.core.ports.stores import NodeTaskStore, RunStore
from runyard.core.records.nodes import NodeTask, NodeTaskState
from runyard.core.records.runs import AttemptId, RunId, RunStatus
from runyard.testing.race import WRITERS, race
from runyard.testing.records import AT, a_run

ATTEMPT = AttemptId("r1.1")
LATER = AT + timedelta(seconds=1)
READY = NodeTask(ATTEMPT, 0, NodeTaskState.READY, AT, {"address": "127.0.0.2", "ports": {"master": 6105}})
ENDED = NodeTask(ATTEMPT, 0, NodeTaskState.ENDED, LATER, {"outcome": "failed", "exit_code": 3})


class NodeTaskStoreSuite:
    """Contract tests of NodeTaskStore. Subclass it and supply `store` and `runs`."""

    @pytest.fixture
    def store(self) -> NodeTaskStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.fixture
    def runs(self) -> RunStore:
        raise NotImplementedError("supply a `runs` fixture in the subclass")

    @pytest.fixture(autouse=True)
    def a_run_to_belong_to(self, runs: RunStore) -> None:
        runs.create(a_run("r1"))

    def test_all_parts_of_the_attempt_come_back_by_node(self, store: NodeTaskStore) -> None:
        second = replace(READY, node=1)
        assert store.put(second) == [second]
        assert store.put(READY) == [READY, second]
        assert store.list(ATTEMPT) == [READY, second]

    def test_facts_are_added_to_those_known(self, store: NodeTaskStore) -> None:
        store.put(READY)
        [part] = store.put(ENDED)
        assert (part.state, part.at) == (NodeTaskState.ENDED, LATER)
        assert part.facts == {**READY.facts, **ENDED.facts}

    def test_a_part_never_goes_back(self, store: NodeTaskStore) -> None:
        store.put(ENDED)
        assert store.put(READY) == [ENDED]
        assert store.list(ATTEMPT) == [ENDED]

    def test_the_first_of_two_equal_reports_stays(self, store: NodeTaskStore) -> None:
        store.put(ENDED)
        assert store.put(replace(ENDED, at=AT, facts={"outcome": "completed"})) == [ENDED]

    def test_attempts_are_told_apart(self, store: NodeTaskStore) -> None:
        store.put(READY)
        again = replace(READY, attempt_id=AttemptId("r1.2"))
        assert store.put(again) == [again]
        assert store.list(ATTEMPT) == [READY]
        assert store.list(AttemptId("r1.3")) == []

    def test_one_of_eight_ends_of_a_part_stays(self, store: NodeTaskStore) -> None:
        race(lambda writer: store.put(replace(ENDED, facts={"writer": writer})))
        [part] = store.list(ATTEMPT)
        assert part.facts["writer"] in range(WRITERS)

    def test_the_last_of_eight_nodes_sees_them_all(self, store: NodeTaskStore) -> None:
        seen = race(lambda writer: len(store.put(replace(READY, node=writer))))
        assert sorted(seen) == list(range(1, WRITERS + 1))

    def test_an_unknown_run_has_no_parts(self, store: NodeTaskStore) -> None:
        with pytest.raises(NotFound):
            store.put(replace(READY, attempt_id=AttemptId("nobody.1")))

    def test_parts_go_with_their_run(self, store: NodeTaskStore, runs: RunStore) -> None:
        store.put(READY)
        runs.move(runs.get(RunId("r1")), RunStatus.CANCELED)
        runs.delete(RunId("r1"))
        assert store.list(ATTEMPT) == []
