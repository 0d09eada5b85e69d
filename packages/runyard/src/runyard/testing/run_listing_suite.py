from collections.abc import Iterable

import pytest

from runyard.errors import InvalidArgument
from runyard.model.runs import RunId, RunQuery, RunRecord, RunStatus
from runyard.ports.stores import MetricStore, RunStore
from runyard.testing.records import a_run, scalars


class RunListingSuite:
    """Contract tests of `RunStore.list`. Subclass it and supply `store`, and `metrics` on the same database."""

    @pytest.fixture
    def store(self) -> RunStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.fixture
    def metrics(self) -> MetricStore:
        raise NotImplementedError("supply a `metrics` fixture in the subclass")

    def test_the_newest_come_first_and_pages_join_up(self, store: RunStore) -> None:
        for number in range(5):
            store.create(a_run(f"r{number}"))
        first = store.list(RunQuery("vision", limit=3))
        second = store.list(RunQuery("vision", limit=3, before=first[-1].sequence))
        assert _ids(first) + _ids(second) == ["r4", "r3", "r2", "r1", "r0"]

    def test_a_listing_leaves_out_what_is_large(self, store: RunStore) -> None:
        store.create(a_run(definition={"script": "a.py"}, environment_lock="numpy==1.0", tags={"a": "b"}))
        [listed] = store.list(RunQuery("vision"))
        assert (listed.definition.raw, listed.environment_lock, listed.tags) == ({}, "", {"a": "b"})

    def test_workspaces_and_experiments_are_apart(self, store: RunStore) -> None:
        store.create(a_run("here"))
        store.create(a_run("there", experiment="cifar"))
        store.create(a_run("elsewhere", workspace="speech"))
        assert _ids(store.list(RunQuery("vision"))) == ["there", "here"]
        assert _ids(store.list(RunQuery("vision", experiment="mnist"))) == ["here"]
        assert store.list(RunQuery("vision", experiment="unknown")) == []

    def test_children_are_listed_when_asked_for(self, store: RunStore) -> None:
        store.create(a_run("parent"))
        store.create(a_run("child", parent_id=RunId("parent")))
        assert _ids(store.list(RunQuery("vision"))) == ["parent"]
        assert _ids(store.list(RunQuery("vision", include_children=True))) == ["child", "parent"]
        assert _ids(store.list(RunQuery("vision", parent_id=RunId("parent")))) == ["child"]

    def test_descendants_come_after_their_parents_however_far_down(self, store: RunStore) -> None:
        store.create(a_run("top", definition={"script": "a.py"}))
        store.create(a_run("stranger"))
        for child, parent in [("one", "top"), ("two", "top"), ("of-one", "one"), ("of-of-one", "of-one")]:
            store.create(a_run(child, parent_id=RunId(parent), definition={"script": "a.py"}))
        assert _ids(store.descendants(RunId("top"))) == ["one", "two", "of-one", "of-of-one"]
        assert [run.definition.raw for run in store.descendants(RunId("of-one"))] == [{}]
        assert store.descendants(RunId("two")) == store.descendants(RunId("unknown")) == []

    def test_status_and_type_filter(self, store: RunStore) -> None:
        store.create(a_run("failed", RunStatus.FAILED))
        store.create(a_run("sweep", RunStatus.RUNNING, type="hyperdrive"))
        assert _ids(store.list(RunQuery("vision", status=[RunStatus.FAILED]))) == ["failed"]
        both = RunQuery("vision", status=[RunStatus.FAILED, RunStatus.RUNNING])
        assert _ids(store.list(both)) == ["sweep", "failed"]
        assert _ids(store.list(RunQuery("vision", type="hyperdrive"))) == ["sweep"]

    def test_tags_and_properties_filter_by_key_or_value(self, store: RunStore) -> None:
        store.create(a_run("both", tags={"a": "1", "b": "x" * 5000}, properties={"p": "1"}))
        store.create(a_run("other", tags={"a": "2"}))
        assert _ids(store.list(RunQuery("vision", tags={"a": None}))) == ["other", "both"]
        assert _ids(store.list(RunQuery("vision", tags={"a": "1"}))) == ["both"]
        assert _ids(store.list(RunQuery("vision", tags={"a": "1", "b": "x" * 5000}))) == ["both"]
        assert _ids(store.list(RunQuery("vision", experiment="mnist", properties={"p": "1"}))) == ["both"]
        assert store.list(RunQuery("vision", tags={"p": "1"})) == []
        assert store.list(RunQuery("vision", experiment="cifar", tags={"a": "1"})) == []

    def test_a_changed_tag_is_found_by_its_new_value_alone(self, store: RunStore) -> None:
        store.create(a_run(tags={"a": "old"}))
        store.update(RunId("r1"), tags={"a": "new"})
        assert store.list(RunQuery("vision", tags={"a": "old"})) == []
        assert _ids(store.list(RunQuery("vision", tags={"a": "new"}))) == ["r1"]

    def test_a_metric_orders_and_limits(self, store: RunStore, metrics: MetricStore) -> None:
        for number, accuracy in enumerate([0.5, 0.9, 0.7, 0.9]):
            store.create(a_run(f"r{number}", tags={"even": str(number % 2)}))
            metrics.append(RunId(f"r{number}"), "j", 0, 1, [scalars("accuracy", 0.1, accuracy)])
        store.create(a_run("unmeasured"))
        best = RunQuery("vision", order_by_metric="accuracy", metric_above=0.5)
        assert _ids(store.list(best)) == ["r3", "r1", "r2"]
        assert _ids(store.list(RunQuery("vision", order_by_metric="accuracy", descending=False)))[0] == "r0"
        even = RunQuery("vision", experiment="mnist", order_by_metric="accuracy", tags={"even": "0"})
        assert _ids(store.list(even)) == ["r2", "r0"]

    @pytest.mark.parametrize("descending", [True, False])
    def test_pages_by_metric_join_up(self, store: RunStore, metrics: MetricStore, descending: bool) -> None:
        for number, loss in enumerate([3, 1, 2, 2, 2]):
            store.create(a_run(f"r{number}"))
            metrics.append(RunId(f"r{number}"), "j", 0, 1, [scalars("loss", loss)])
        whole = _ids(store.list(RunQuery("vision", order_by_metric="loss", descending=descending)))
        paged: list[str] = []
        before = None
        for _ in range(3):
            query = RunQuery("vision", order_by_metric="loss", descending=descending, limit=2, before=before)
            page = store.list(query)
            paged, before = paged + _ids(page), page[-1].sequence
        assert paged == whole
        assert len(whole) == 5

    def test_a_limit_without_its_metric_is_refused(self, store: RunStore) -> None:
        with pytest.raises(InvalidArgument, match="order_by_metric"):
            store.list(RunQuery("vision", metric_above=1.0))


def _ids(runs: Iterable[RunRecord]) -> list[str]:
    return [run.id for run in runs]
