from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument, NotFound
from runyard.core.ports.stores import MetricStore, RunStore
from runyard.core.records.runs import QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.testing.race import WRITERS, race
from runyard.testing.records import AT, a_run, scalars


class RunStoreSuite:
    """Contract tests of RunStore. Subclass it and supply `store`."""

    @pytest.fixture
    def store(self) -> RunStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    def test_a_run_comes_back_as_it_was_stored(self, store: RunStore) -> None:
        run = a_run(
            definition={"script": "train.py", "deep": [1, {"a": None}]},
            tags={"a": "1", "umlaut": "ü", "nul": "x\0y"},
            properties={"p": "q"},
            warnings=("careful",),
            nodes=("n1", "n2"),
            error={"error": {"code": "UserError"}},
            exit_facts={"exit_code": 3},
            environment_lock="numpy==1.0\n",
            parent_id=RunId("p"),
            ended_at=AT + timedelta(days=1),
            dropped_points=7,
            job_id="4711",
        )
        created = store.create(run)
        assert created == store.get(run.id)
        assert created == replace(run, number=1, sequence=created.sequence)
        assert created.sequence > 0

    def test_runs_of_an_experiment_are_numbered_from_one(self, store: RunStore) -> None:
        numbers = [store.create(a_run(f"r{i}")).number for i in range(3)]
        assert numbers == [1, 2, 3]
        assert store.create(a_run("other", experiment="cifar")).number == 1

    def test_a_taken_id_is_refused(self, store: RunStore) -> None:
        store.create(a_run())
        with pytest.raises(AlreadyExists, match="r1"):
            store.create(a_run())

    def test_an_unknown_run_is_not_found(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.get(RunId("nobody"))
        with pytest.raises(NotFound):
            store.update(RunId("nobody"), message="x")
        with pytest.raises(NotFound):
            store.move(a_run("nobody"), RunStatus.QUEUED)
        with pytest.raises(NotFound):
            store.add_event(RunId("nobody"), RunEvent(AT, "note", "x"))
        with pytest.raises(NotFound):
            store.events(RunId("nobody"))

    def test_one_of_eight_creators_wins(self, store: RunStore) -> None:
        results = race(lambda number: store.create(a_run(tags={"writer": str(number)})))
        assert sum(isinstance(result, RunRecord) for result in results) == 1
        assert sum(isinstance(result, AlreadyExists) for result in results) == WRITERS - 1

    def test_eight_creators_get_eight_numbers(self, store: RunStore) -> None:
        results = race(lambda number: store.create(a_run(f"r{number}")))
        assert sorted(run.number for run in results) == list(range(1, WRITERS + 1))

    def test_a_move_sets_the_times_and_leaves_an_event(self, store: RunStore) -> None:
        queued = store.move(store.create(a_run()), RunStatus.QUEUED, message="Waiting.")
        running = store.move(store.move(queued, RunStatus.STARTING), RunStatus.RUNNING)
        ended = store.move(running, RunStatus.COMPLETED, ended_at=AT)
        assert queued.message == "Waiting."
        assert (queued.started_at, running.started_at is None) == (None, False)
        assert ended.ended_at == AT
        assert ended == store.get(ended.id)
        reached = [event.text for event in store.events(ended.id) if event.kind == "status"]
        assert reached == ["NotStarted", "Queued", "Starting", "Running", "Completed"]

    def test_a_move_adds_the_events_that_the_run_passed_before_its_own(self, store: RunStore) -> None:
        later = datetime(2099, 1, 1, tzinfo=UTC)  # a clock that was set back since
        starting = store.move(store.create(a_run()), RunStatus.STARTING)
        started = RunEvent(later, "status", RunStatus.RUNNING.value)
        ended = store.move(starting, RunStatus.COMPLETED, [started], started_at=later)
        assert (ended.started_at, ended.ended_at) == (later, later)
        assert ended == store.get(ended.id)
        reached = [(event.text, event.at) for event in store.events(ended.id)][2:]
        assert reached == [("Running", later), ("Completed", later)]

    def test_a_stale_writer_loses(self, store: RunStore) -> None:
        seen = store.create(a_run())
        store.move(seen, RunStatus.QUEUED)
        with pytest.raises(Conflict, match="Queued"):
            store.move(seen, RunStatus.QUEUED)

    def test_one_of_eight_movers_wins(self, store: RunStore) -> None:
        seen = store.create(a_run())
        results = race(lambda _: store.move(seen, RunStatus.QUEUED))
        assert sum(isinstance(result, RunRecord) for result in results) == 1
        assert [event.text for event in store.events(seen.id)] == ["NotStarted", "Queued"]

    def test_a_finished_run_cannot_move(self, store: RunStore) -> None:
        done = store.create(a_run(status=RunStatus.COMPLETED))
        with pytest.raises(Conflict, match="cannot go from Completed to Running"):
            store.move(done, RunStatus.RUNNING)

    def test_an_update_merges_tags_properties_and_warnings(self, store: RunStore) -> None:
        store.create(a_run(tags={"keep": "1", "drop": "2"}, properties={"p": "1"}, warnings=("first",)))
        changed = store.update(
            RunId("r1"),
            tags={"drop": None, "new": "3"},
            properties={"p": "1", "q": "2"},
            warnings=["second"],
            message="hi",
        )
        assert changed.tags == {"keep": "1", "new": "3"}
        assert changed.properties == {"p": "1", "q": "2"}
        assert changed.warnings == ("first", "second")
        assert changed == store.get(RunId("r1"))
        assert changed.version == 2

    def test_no_time_of_a_run_is_before_the_one_that_precedes_it(self, store: RunStore) -> None:
        """The clock went back after the submit, and a node's clock is ahead."""
        later = datetime(2099, 1, 1, tzinfo=UTC)
        run = store.create(a_run(created_at=later))
        running = store.move(run, RunStatus.RUNNING)
        ended = store.move(running, RunStatus.COMPLETED)
        assert (running.started_at, ended.ended_at) == (later, later)
        assert [event.at for event in store.events(run.id)] == [later] * 3
        started_ahead = store.move(store.create(a_run("ahead")), RunStatus.RUNNING, started_at=later)
        assert store.move(started_ahead, RunStatus.FAILED).ended_at == later

    def test_an_update_sent_twice_changes_nothing_more(self, store: RunStore) -> None:
        store.create(a_run())
        once = store.update(RunId("r1"), tags={"a": "1"}, warnings=["w"])
        assert store.update(RunId("r1"), tags={"a": "1"}, warnings=["w"]) == once

    def test_a_property_never_changes(self, store: RunStore) -> None:
        store.create(a_run(properties={"p": "1"}))
        with pytest.raises(Conflict, match="'p'"):
            store.update(RunId("r1"), properties={"p": "2"})

    def test_an_update_cannot_set_the_status(self, store: RunStore) -> None:
        store.create(a_run())
        with pytest.raises(InvalidArgument, match="status"):
            store.update(RunId("r1"), status=RunStatus.COMPLETED)

    def test_no_tag_of_eight_writers_is_lost(self, store: RunStore) -> None:
        store.create(a_run())
        race(lambda number: store.update(RunId("r1"), tags={f"t{number}": "x"}))
        assert store.get(RunId("r1")).tags == {f"t{number}": "x" for number in range(WRITERS)}

    def test_events_come_in_the_order_they_were_added(self, store: RunStore) -> None:
        store.create(a_run())
        notes = [RunEvent(AT, "note", f"n{number}") for number in range(3)]
        for note in notes:
            store.add_event(RunId("r1"), note)
        assert store.events(RunId("r1"))[1:] == notes

    def test_unfinished_runs_come_oldest_first_without_their_definition(self, store: RunStore) -> None:
        store.create(a_run("old", definition={"script": "a.py"}))
        store.create(a_run("done", RunStatus.COMPLETED))
        moved = store.create(a_run("canceled"))
        store.create(a_run("new", RunStatus.RUNNING))
        store.move(moved, RunStatus.CANCELED)
        found = store.unfinished()
        assert [run.id for run in found] == ["old", "new"]
        assert found[0].definition.raw == {}

    def test_a_queue_is_of_one_target_and_oldest_first(self, store: RunStore) -> None:
        store.create(a_run("late", target="gpus"))
        for run_id, parent_id in (("b", None), ("a", RunId("b"))):
            store.create(a_run(run_id, RunStatus.QUEUED, target="gpus", message="Waiting.", parent_id=parent_id))
        store.create(a_run("elsewhere", RunStatus.QUEUED, target="gpus", workspace="speech"))
        store.create(a_run("other", RunStatus.QUEUED, target="cpus"))
        store.create(a_run("running", RunStatus.RUNNING, target="gpus"))
        assert store.queue("vision", "gpus", limit=9) == [
            QueuedRun(RunId("b"), "Waiting.", None),
            QueuedRun(RunId("a"), "Waiting.", RunId("b")),
        ]
        store.move(store.get(RunId("late")), RunStatus.QUEUED)
        store.move(store.get(RunId("b")), RunStatus.CANCELED)
        assert [run.id for run in store.queue("vision", "gpus", limit=2)] == ["late", "a"]
        assert [run.id for run in store.queue("vision", "gpus", limit=1)] == ["late"]
        assert store.queue("vision", "gone", limit=9) == []

    def test_a_run_in_the_queue_of_its_engine_is_in_ours_no_more(self, store: RunStore) -> None:
        for run_id in ("a", "b"):
            store.create(a_run(run_id, RunStatus.QUEUED, target="gpus"))
        seen = store.get(RunId("a"))
        handed_over = store.move(seen, RunStatus.QUEUED, ticket="a.1", nodes=("gpus-0",), message="Elsewhere.")
        assert handed_over.is_handed_over
        with pytest.raises(Conflict):
            store.move(seen, RunStatus.QUEUED, ticket="a.2")
        assert [run.id for run in store.queue("vision", "gpus", limit=9)] == ["b"]
        assert store.update(RunId("a"), job_id="4711").job_id == "4711"
        assert [run.job_id for run in store.unfinished()] == ["4711", None]
        store.move(store.get(RunId("a")), RunStatus.QUEUED, ticket="", nodes=(), job_id=None)
        assert [run.id for run in store.queue("vision", "gpus", limit=9)] == ["a", "b"]

    def test_deleting_removes_the_run_and_is_quiet_when_gone(self, store: RunStore) -> None:
        store.create(a_run(status=RunStatus.FAILED, tags={"a": "b"}))
        store.delete(RunId("r1"))
        store.delete(RunId("r1"))
        with pytest.raises(NotFound):
            store.get(RunId("r1"))

    def test_a_run_going_on_is_not_deleted(self, store: RunStore) -> None:
        store.create(a_run(status=RunStatus.RUNNING))
        with pytest.raises(Conflict, match="going on"):
            store.delete(RunId("r1"))
        assert store.get(RunId("r1")).status is RunStatus.RUNNING

    def test_several_are_deleted_or_none(self, store: RunStore) -> None:
        store.create(a_run("over", RunStatus.FAILED))
        store.create(a_run("too", RunStatus.COMPLETED))
        store.create(a_run("on", RunStatus.RUNNING))
        with pytest.raises(Conflict, match="'on' is still going on"):
            store.delete(RunId("over"), RunId("on"))
        store.get(RunId("over"))
        store.delete(RunId("over"), RunId("nobody"), RunId("too"))
        assert [run.id for run in store.unfinished()] == ["on"]
        with pytest.raises(NotFound):
            store.get(RunId("too"))
        store.delete()


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
