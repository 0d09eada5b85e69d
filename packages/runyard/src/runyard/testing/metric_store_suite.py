import math
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runyard.core.errors import Conflict, NotFound
from runyard.core.ports.stores import MetricStore, RunStore
from runyard.core.records.metrics import MetricBatch, MetricKind, MetricSeries, MetricSummary
from runyard.core.records.runs import RunId, RunStatus
from runyard.testing.race import WRITERS, race
from runyard.testing.records import a_run, scalars

RUN = RunId("r1")
_STRETCHES = st.tuples(st.integers(0, 12), st.integers(1, 12)).map(lambda at: (at[0], at[0] + at[1]))


class MetricStoreSuite:
    """Contract tests of MetricStore. Subclass it and supply `store`, and `runs` on the same database."""

    @pytest.fixture
    def store(self) -> MetricStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.fixture
    def runs(self) -> RunStore:
        raise NotImplementedError("supply a `runs` fixture in the subclass")

    @pytest.fixture(autouse=True)
    def run(self, runs: RunStore) -> None:
        runs.create(a_run(RUN))

    def test_points_come_back_in_order_with_steps_and_times(self, store: MetricStore) -> None:
        store.append(RUN, "j", 0, 10, [MetricBatch("loss", MetricKind.SCALAR, [3.0, 2.0], [7, None], [0.5, 1.5])])
        store.append(RUN, "j", 10, 20, [MetricBatch("loss", MetricKind.SCALAR, [1.0], [-(2**40)], [2.5])])
        [series] = store.series(RUN)
        assert (series.name, series.kind, series.type) == ("loss", MetricKind.SCALAR, "f")
        assert list(series.values) == [3.0, 2.0, 1.0]
        assert list(series.steps) == [7, None, -(2**40)]
        assert list(series.at) == [0.5, 1.5, 2.5]

    def test_metrics_come_in_the_order_first_logged(self, store: MetricStore) -> None:
        store.append(RUN, "j", 0, 1, [scalars("b", 1), scalars("a", 1)])
        store.append(RUN, "j", 1, 2, [scalars("0", 1), scalars("a", 2)])
        assert [series.name for series in store.series(RUN)] == ["b", "a", "0"]
        assert [series.name for series in store.series(RUN, "a")] == ["a"]
        assert store.series(RUN, "unknown") == []

    def test_points_of_several_ranks_are_merged_by_time_and_told_apart(self, store: MetricStore) -> None:
        store.append(RUN, "j0", 0, 10, [MetricBatch("loss", MetricKind.SCALAR, [1, 2], [None, 5], [0.0, 2.0])])
        late = [MetricBatch("loss", MetricKind.SCALAR, [10, 20], [None, 5], [1.0, 3.0])]
        store.append(RUN, "j1", 0, 10, late, rank=1)
        [series] = store.series(RUN)
        assert (list(series.values), list(series.steps)) == ([1, 10, 2, 20], [None, None, 5, 5])
        assert list(store.series(RUN, "loss", rank=0)[0].values) == [1, 2]
        [of_one] = store.series(RUN, rank=1)
        assert (of_one.type, list(of_one.values), list(of_one.at)) == ("i", [10, 20], [1.0, 3.0])
        assert store.series(RUN, rank=2) == []

    def test_many_runs_are_read_together_as_each_by_itself(self, store: MetricStore, runs: RunStore) -> None:
        several = [RunId(f"of-many-{place}") for place in range(3)]
        for place, run_id in enumerate(several[:2]):
            runs.create(a_run(run_id))
            store.append(run_id, "j0", 0, 10, [scalars("loss", 1.0 + place, 2.0), scalars("name", "x")])
            store.append(run_id, "j1", 0, 10, [scalars("loss", 7.0)], rank=1)
        found = store.series_of([*several, RUN])
        assert list(found) == [*several, RUN]
        assert [found[run_id] for run_id in several[:2]] == [store.series(run_id) for run_id in several[:2]]
        assert (found[several[2]], found[RUN]) == ([], [])
        first = several[0]
        assert store.series_of([first], "loss", rank=1)[first] == store.series(first, "loss", rank=1)
        assert [list(one.values) for one in store.series_of([first], "loss", rank=1)[first]] == [[7.0]]

    def test_a_metric_of_rank_0_alone_is_nothing_of_the_others(self, store: MetricStore) -> None:
        store.append(RUN, "j", 0, 10, [scalars("loss", 1.0, 0.5)])
        assert store.series(RUN, rank=1) == []
        assert list(store.series(RUN, rank=0)[0].values) == [1.0, 0.5]

    @pytest.mark.parametrize(
        ("batches", "type_", "values"),
        [
            ([[1], [2**62]], "i", [1, 2**62]),
            ([[1], [2.5], [3]], "f", [1.0, 2.5, 3.0]),
            ([[1, 2.5, 3]], "f", [1.0, 2.5, 3.0]),
            ([[1], ["two"]], "j", [1, "two"]),
            ([[1], [2.5], ["three"]], "j", [1.0, 2.5, "three"]),
            ([[1, 2.5, "three"]], "j", [1.0, 2.5, "three"]),
            ([[True], [1]], "j", [True, 1]),
            ([[None]], "j", [None]),
            ([[2**80], [1]], "j", [2**80, 1]),
            ([["\ud800\0ü"]], "j", ["\ud800\0ü"]),
        ],
    )
    def test_types_do_not_depend_on_how_points_were_sent(
        self, store: MetricStore, batches: list[list[Any]], type_: str, values: list[Any]
    ) -> None:
        for number, batch in enumerate(batches, start=1):
            store.append(RUN, "j", number - 1, number, [scalars("m", *batch)])
        [series] = store.series(RUN)
        assert series.type == type_
        assert list(series.values) == values
        assert list(map(type, series.values)) == list(map(type, values))

    def test_nan_and_infinities_are_kept(self, store: MetricStore) -> None:
        store.append(RUN, "j", 0, 1, [scalars("m", math.nan, math.inf, -math.inf, 1.0)])
        store.append(RUN, "j", 1, 2, [scalars("m", math.nan, "text")])
        [series] = store.series(RUN)
        assert [math.isnan(value) for value in series.values[:1]] == [True]
        assert list(series.values[1:4]) == [math.inf, -math.inf, 1.0]
        assert math.isnan(series.values[4])

    def test_a_summary_ignores_what_is_no_number(self, store: MetricStore) -> None:
        store.append(RUN, "j", 0, 1, [scalars("m", 3, -1.5, math.nan), scalars("words", "a", None, True)])
        store.append(RUN, "j", 1, 2, [scalars("m", 2, "end")])
        assert store.summaries([RUN, RunId("unknown")]) == {
            RUN: [
                MetricSummary("m", MetricKind.SCALAR, 5, 2.0, -1.5, 3.0),
                MetricSummary("words", MetricKind.SCALAR, 3, None, None, None),
            ],
            "unknown": [],
        }

    def test_lists_join_the_scalars_of_their_name_and_rows_do_not(self, store: MetricStore) -> None:
        store.append(RUN, "j", 0, 1, [scalars("m", 1)])
        store.append(RUN, "j", 1, 2, [MetricBatch("m", MetricKind.LIST, [2, 3], [None, None], [0.0, 0.0])])
        store.append(RUN, "j", 2, 3, [MetricBatch("m", MetricKind.ROW, [{"x": 1}], [None], [0.0])])
        assert [(series.kind, list(series.values)) for series in store.series(RUN)] == [
            (MetricKind.SCALAR, [1, 2, 3]),
            (MetricKind.ROW, [{"x": 1}]),
        ]

    def test_a_batch_sent_twice_counts_once(self, store: MetricStore, runs: RunStore) -> None:
        for _ in range(2):
            store.append(RUN, "j", 0, 10, [scalars("m", 1)], dropped=2)
        store.append(RUN, "j", 0, 9, [scalars("m", 1)])
        assert _values(store) == [1]
        assert store.offset(RUN, "j") == 10
        assert runs.get(RUN).dropped_points == 2

    def test_points_that_do_not_follow_the_stored_end_are_refused(self, store: MetricStore) -> None:
        store.append(RUN, "j", 0, 10, [scalars("m", 1)])
        for start, end in ((0, 20), (5, 20), (11, 20)):
            with pytest.raises(Conflict, match="byte 10") as refused:
                store.append(RUN, "j", start, end, [scalars("m", 2)], dropped=1)
            assert refused.value.facts == {"offset": 10}
        assert _values(store) == [1]

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(deliveries=st.lists(_STRETCHES, max_size=12), at_once=st.booleans())
    def test_any_deliveries_store_each_point_once(
        self, store: MetricStore, runs: RunStore, deliveries: list[tuple[int, int]], at_once: bool
    ) -> None:
        """Overlapping, repeated, extended and reordered pieces of a journal whose byte N is the point N."""
        run_id = RunId(f"any-{uuid4().hex}")
        runs.create(a_run(run_id))
        send = partial(_send, store, run_id)
        if at_once and deliveries:
            race(lambda number: send(*deliveries[number]), len(deliveries))
        else:
            for stretch in deliveries:
                send(*stretch)
        end = store.offset(run_id, "j")
        assert [list(series.values) for series in store.series(run_id)] == ([list(range(end))] if end else [])
        assert runs.get(run_id).dropped_points == end
        assert end >= max((stop for start, stop in deliveries if start == 0), default=0)

    def test_each_rank_has_its_own_offset(self, store: MetricStore) -> None:
        store.append(RUN, "rank0", 0, 10, [scalars("m", 1)])
        store.append(RUN, "rank1", 0, 5, [scalars("m", 2)])
        store.append(RUN, "rank1", 5, 6, [])
        assert store.offsets(RUN) == {"rank0": 10, "rank1": 6}
        assert store.offset(RUN, "never seen") == 0
        assert _values(store) == [1, 2]

    def test_one_of_eight_senders_of_a_batch_is_stored(self, store: MetricStore) -> None:
        race(lambda _: store.append(RUN, "j", 0, 10, [scalars("m", 1, 2)]))
        assert _values(store) == [1, 2]

    def test_no_point_of_eight_ranks_is_lost(self, store: MetricStore) -> None:
        def log_twenty(rank: int) -> None:
            for number in range(1, 21):
                store.append(RUN, f"rank{rank}", number - 1, number, [scalars("m", rank * 100 + number)])

        race(log_twenty)
        assert sorted(_values(store)) == sorted(rank * 100 + n for rank in range(WRITERS) for n in range(1, 21))
        [summary] = store.summaries([RUN])[RUN]
        assert (summary.count, summary.minimum, summary.maximum) == (WRITERS * 20, 1.0, 720.0)

    def test_many_batches_and_a_large_one_stay_in_order(self, store: MetricStore) -> None:
        for number in range(1, 40):
            store.append(RUN, "j", number - 1, number, [scalars("m", *range(number * 40, number * 40 + 40))])
        store.append(RUN, "j", 39, 100, [scalars("m", *range(1600, 21600))])
        assert _values(store) == list(range(40, 21600))

    def test_a_thousand_metrics_of_any_name(self, store: MetricStore) -> None:
        names = [f"m{number}" for number in range(1000)] + ["x" * 9000, "x" * 9001, "ü/../ %", ""]
        for offset in (1, 2):
            store.append(RUN, "j", offset - 1, offset, [scalars(name, offset) for name in names])
        assert [series.name for series in store.series(RUN)] == names
        assert list(store.series(RUN, "x" * 9001)[0].values) == [1, 2]

    def test_names_beyond_the_most_are_left_out_and_their_points_counted(
        self, store: MetricStore, runs: RunStore
    ) -> None:
        many = [scalars(f"m{number}", 1, 2) for number in range(5)]
        assert store.append(RUN, "j", 0, 1, many, most_names=3) == 4
        more = [scalars("m0", 3), scalars("new", 7, 8, 9)]
        assert store.append(RUN, "j", 1, 2, more, dropped=1, most_names=3) == 3
        assert store.append(RUN, "j", 2, 3, [scalars("new", 7)], most_names=3) == 1
        assert [(one.name, list(one.values)) for one in store.series(RUN)] == [
            ("m0", [1, 2, 3]),
            ("m1", [1, 2]),
            ("m2", [1, 2]),
        ]
        assert (runs.get(RUN).dropped_points, store.offset(RUN, "j")) == (9, 3)

    def test_pages_of_metrics_join_up(self, store: MetricStore, runs: RunStore) -> None:
        other = RunId("other")
        runs.create(a_run(other))
        for number in range(5):
            store.append(RUN, "j", number, number + 1, [scalars(f"m{number}", number, number)])
            store.append(other, "j", number, number + 1, [scalars(f"m{number}", -number)])
        found: dict[RunId, list[MetricSeries]] = {RUN: [], other: []}
        after: int | None = 0
        pages = 0
        while after is not None:
            page, after = store.series_page([RUN, other], after=after, limit=3)
            assert sum(map(len, page.values())) <= 3
            for run_id, several in page.items():
                found[run_id] += several
            pages += 1
        assert (pages, found) == (4, store.series_of([RUN, other]))
        assert store.series_page([RUN], "m3", limit=1) == ({RUN: store.series(RUN, "m3")}, None)
        assert store.series_page([RunId("nobody")], limit=1) == ({"nobody": []}, None)

    def test_an_unknown_run_is_not_found(self, store: MetricStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.append(RunId("nobody"), "j", 0, 1, [scalars("m", 1)])
        with pytest.raises(NotFound):
            store.series(RunId("nobody"))
        with pytest.raises(NotFound):
            store.offsets(RunId("nobody"))

    def test_metrics_go_with_their_run(self, store: MetricStore, runs: RunStore) -> None:
        store.append(RUN, "j", 0, 1, [scalars("m", 1)])
        runs.move(runs.get(RUN), RunStatus.COMPLETED)
        runs.delete(RUN)
        runs.create(a_run(RUN))
        assert store.series(RUN) == []
        assert store.offset(RUN, "j") == 0


def _send(store: MetricStore, run_id: RunId, start: int, end: int) -> None:
    """Send as a real sender: continue from the store's offset, unless that leaves a gap."""
    while start < end:
        try:
            store.append(run_id, "j", start, end, [scalars("m", *range(start, end))], dropped=end - start)
            return
        except Conflict as refused:
            stored = refused.facts["offset"]
            if stored < start:
                return
            start = stored


def _values(store: MetricStore) -> list[Any]:
    series: MetricSeries
    [series] = store.series(RUN)
    return list(series.values)
