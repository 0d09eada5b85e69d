"""What is done with every delivery or look leaves nothing to the garbage collector, which the service runs seldom."""

import gc
from collections.abc import Callable, Iterator

import pytest

from runyard.core.records.assets import AssetKind
from runyard.core.records.nodes import Node, NodeState
from runyard.core.records.runs import RunId, RunQuery
from runyard.runs.history.journal_lines import parse_journal
from runyard.storage.sql.stores import Stores
from runyard.testing.records import AT, a_file, a_run, a_workspace, scalars

RUN = RunId("r1")
TIMES = 20
NODE = Node("vision", "cluster", "node", "127.0.0.2", NodeState.IDLE, AT)


def deliver_points(stores: Stores) -> None:
    stored = stores.metrics.offset(RUN, "j")
    stores.metrics.append(RUN, "j", stored, stored + 1, [scalars("loss", 0.5), scalars("accuracy", 0.5)])


HOT: dict[str, Callable[[Stores], object]] = {
    "deliver points": deliver_points,
    "read points": lambda stores: stores.metrics.series(RUN),
    "put files": lambda stores: stores.files.put(RUN, [a_file("outputs/model.txt")]),
    "put nodes": lambda stores: stores.nodes.put([NODE]),
    "list clusters": lambda stores: stores.assets.list("vision", AssetKind.COMPUTE, latest_only=True),
    "get run": lambda stores: stores.runs.get(RUN),
    "list unfinished runs": lambda stores: stores.runs.unfinished(),
    "list runs": lambda stores: stores.runs.list(RunQuery("vision")),
    "parse journal": lambda _: parse_journal(b'["m","loss",0.5,null,1.0]\n["tag","a","b"]\n'),
}


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> Iterator[None]:
    """Keep what the tests before have left out of each collection: it takes most of a second to look at."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", HOT)
def test_no_cyclic_garbage(stores: Stores, name: str) -> None:
    stores.assets.create_workspace(a_workspace())
    stores.runs.create(a_run(RUN))
    work = HOT[name]
    work(stores)  # what is made once, and kept
    work(stores)
    # Threads of other tests in this process leave objects too, but not every time.
    left = min(_objects_left(lambda: work(stores)) for _ in range(3))
    assert left < TIMES, f"{left} objects after {TIMES} times"


def _objects_left(work: Callable[[], object]) -> int:
    gc.collect()
    gc.disable()
    try:
        for _ in range(TIMES):
            work()
        return gc.collect()
    finally:
        gc.enable()
