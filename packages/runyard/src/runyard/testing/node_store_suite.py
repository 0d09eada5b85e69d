from dataclasses import replace

import pytest

from runyard.core.ports.stores import NodeStore
from runyard.core.records.nodes import Node, NodeState
from runyard.core.records.runs import RunId
from runyard.testing.race import WRITERS, race
from runyard.testing.records import AT


class NodeStoreSuite:
    """Contract tests of NodeStore. Subclass it and supply `store`."""

    @pytest.fixture
    def store(self) -> NodeStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    def test_nodes_are_listed_by_cluster_and_name(self, store: NodeStore) -> None:
        nodes = [_node("b", "n1"), _node("a", "n2"), _node("a", "n1")]
        store.put(nodes)
        assert store.list("vision") == [nodes[2], nodes[1], nodes[0]]
        assert store.list("vision", "b") == [nodes[0]]
        assert store.list("speech") == []

    def test_a_node_put_again_is_replaced(self, store: NodeStore) -> None:
        store.put([_node("a", "n1"), _node("a", "n2")])
        held = replace(_node("a", "n1"), state=NodeState.RUNNING, run_id=RunId("r1"))
        for _ in range(2):
            store.put([held])
        assert store.list("vision") == [held, _node("a", "n2")]

    @pytest.mark.parametrize("gpus", [(), ("0", "3")])
    def test_the_gpus_of_a_node_are_kept_until_it_is_released(self, store: NodeStore, gpus: tuple[str, ...]) -> None:
        held = replace(_node("a", "n1"), state=NodeState.RUNNING, run_id=RunId("r1"), gpus=gpus)
        store.put([held])
        assert store.list("vision") == [held]
        [freed] = store.release(RunId("r1"))
        assert freed.gpus is None
        assert store.list("vision")[0].gpus is None

    def test_no_node_of_eight_writers_is_lost(self, store: NodeStore) -> None:
        race(lambda number: store.put([_node("a", f"n{number}"), _node("a", "shared")]))
        assert [node.name for node in store.list("vision")] == [*(f"n{n}" for n in range(WRITERS)), "shared"]

    def test_removing_is_quiet_when_gone(self, store: NodeStore) -> None:
        store.put([_node("a", "n1"), _node("b", "n1")])
        for _ in range(2):
            store.remove("vision", "a", ["n1", "unknown"])
        assert store.list("vision") == [_node("b", "n1")]

    def test_releasing_frees_the_nodes_of_that_run_alone(self, store: NodeStore) -> None:
        mine = replace(_node("a", "n1"), state=NodeState.RUNNING, run_id=RunId("r1"))
        other = replace(_node("a", "n2"), state=NodeState.RUNNING, run_id=RunId("r2"))
        store.put([mine, other])
        [freed] = store.release(RunId("r1"))
        assert (freed.name, freed.state, freed.run_id) == ("n1", NodeState.IDLE, None)
        assert freed.since > AT
        assert store.list("vision") == [freed, other]
        assert store.release(RunId("r1")) == []

    def test_one_of_eight_releases_gets_the_node(self, store: NodeStore) -> None:
        store.put([replace(_node("a", "n1"), state=NodeState.RUNNING, run_id=RunId("r1"))])
        results = race(lambda _: store.release(RunId("r1")))
        assert sum(len(freed) for freed in results) == 1


def _node(cluster: str, name: str) -> Node:
    return Node("vision", cluster, name, "127.0.0.2", NodeState.IDLE, AT)
