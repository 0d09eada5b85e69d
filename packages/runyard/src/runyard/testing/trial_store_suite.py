import json
import math
from dataclasses import replace
from typing import Any

import pytest

from runyard.core.errors import NotFound
from runyard.core.ports.stores import MetricStore, RunStore, TrialStore
from runyard.core.records.metrics import MetricBatch, MetricKind
from runyard.core.records.runs import RunId, RunStatus
from runyard.core.records.sweeps import Goal, RankedTrial, Trial, TrialStop
from runyard.testing.race import WRITERS, race
from runyard.testing.records import a_run, scalars

SWEEP, EARLIER = RunId("HD_b"), RunId("HD_a")
STOP = TrialStop("Bandit", 4, 0.5, 0.9, "Bandit policy at interval 4: 0.5 is below 0.9.")


def a_trial(number: int, sweep_id: RunId = SWEEP, **values: Any) -> Trial:
    return Trial(sweep_id, number, values or {"lr": number / 10})


class TrialStoreSuite:
    """Contract tests of TrialStore. Subclass it and supply `store`, and `runs` and `metrics` on the same database."""

    @pytest.fixture
    def store(self) -> TrialStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.fixture
    def runs(self) -> RunStore:
        raise NotImplementedError("supply a `runs` fixture in the subclass")

    @pytest.fixture
    def metrics(self) -> MetricStore:
        raise NotImplementedError("supply a `metrics` fixture in the subclass")

    @pytest.fixture(autouse=True)
    def two_sweeps(self, runs: RunStore) -> None:
        for sweep_id in (EARLIER, SWEEP):
            runs.create(a_run(sweep_id))

    @pytest.fixture
    def logged(self, store: TrialStore, runs: RunStore, metrics: MetricStore) -> "LoggedTrials":
        return LoggedTrials(store, runs, metrics)

    def test_trials_come_back_by_number(self, store: TrialStore) -> None:
        resumed = replace(a_trial(0), resumed_from=RunId("HD_a_7"))
        odd = Trial(SWEEP, 2, {"--name": "\ud800\0ü", "layers": [1, None, True], "x": 2**80, "y": 0.1})
        store.add([odd, a_trial(10)])
        store.add([resumed])
        assert store.list(SWEEP) == [resumed, odd, a_trial(10)]
        assert store.list(EARLIER) == store.list(RunId("nobody")) == []

    def test_a_trial_that_is_there_stays_as_it_is(self, store: TrialStore) -> None:
        store.add([a_trial(0, lr=0.1)])
        store.stop(SWEEP, 0, STOP)
        store.add([a_trial(0, lr=0.2), a_trial(1)])
        assert store.list(SWEEP) == [replace(a_trial(0, lr=0.1), stop=STOP), a_trial(1)]

    def test_all_are_kept_or_none(self, store: TrialStore) -> None:
        store.add([])
        with pytest.raises(NotFound, match="nobody"):
            store.add([a_trial(0), a_trial(0, RunId("nobody"))])
        assert store.list(SWEEP) == []

    def test_the_first_reason_to_stop_stays(self, store: TrialStore) -> None:
        store.add([a_trial(0), a_trial(1)])
        assert store.stop(SWEEP, 0, STOP)
        assert not store.stop(SWEEP, 0, replace(STOP, interval=5, held_against=None))
        assert [trial.stop for trial in store.list(SWEEP)] == [STOP, None]

    def test_what_is_not_there_is_not_stopped(self, store: TrialStore) -> None:
        store.add([a_trial(0)])
        assert not store.stop(SWEEP, 1, STOP)
        assert not store.stop(RunId("nobody"), 0, STOP)

    def test_one_of_eight_reasons_to_stop_is_the_first(self, store: TrialStore) -> None:
        store.add([a_trial(0)])
        told = race(lambda writer: (store.stop(SWEEP, 0, replace(STOP, interval=writer)), writer))
        [first] = [writer for was_first, writer in told if was_first]
        assert store.list(SWEEP)[0].stop == replace(STOP, interval=first)

    def test_one_of_eight_trials_of_a_number_stays(self, store: TrialStore) -> None:
        race(lambda writer: store.add([a_trial(0, writer=writer), a_trial(writer + 1)]))
        assert [trial.number for trial in store.list(SWEEP)] == list(range(WRITERS + 1))

    def test_trials_go_with_their_sweep(self, store: TrialStore, runs: RunStore) -> None:
        store.add([a_trial(0), a_trial(0, EARLIER)])
        runs.move(runs.get(SWEEP), RunStatus.CANCELED)
        runs.delete(SWEEP)
        assert store.list(SWEEP) == []
        assert store.ranked([SWEEP], "loss", Goal.MINIMIZE) == []
        assert store.list(EARLIER) == [a_trial(0, EARLIER)]

    def test_a_trial_goes_with_its_run(self, store: TrialStore, runs: RunStore, logged: "LoggedTrials") -> None:
        runs.create(a_run("HD_b_x", RunStatus.COMPLETED, parent_id=SWEEP))
        for number in range(3):
            logged.of(number, 1.0)
            runs.move(runs.get(RunId(f"HD_b_{number}")), RunStatus.COMPLETED)
        runs.delete(RunId("HD_b_1"), RunId("HD_b_x"), RunId("HD_b_2"), RunId("nobody"))
        assert [trial.number for trial in store.list(SWEEP)] == [0]

    @pytest.mark.parametrize(
        ("goal", "ranking"),
        [(Goal.MAXIMIZE, [(1, 9.0), (0, 5.0), (2, 1.0)]), (Goal.MINIMIZE, [(2, 1.0), (1, 2.0), (0, 3.0)])],
    )
    def test_the_best_comes_first(
        self, store: TrialStore, logged: "LoggedTrials", goal: Goal, ranking: list[tuple[int, float]]
    ) -> None:
        logged.of(0, 3, 5, 4)
        logged.of(1, 9, 2, 3)
        logged.of(2, 1, 1)
        assert [(trial.number, trial.best) for trial in store.ranked([SWEEP], "loss", goal)] == ranking

    def test_a_trial_is_told_with_its_run(self, store: TrialStore, logged: "LoggedTrials") -> None:
        logged.of(0, 3, 5, 4)
        store.stop(SWEEP, 0, STOP)
        [trial] = store.ranked([SWEEP], "loss", Goal.MAXIMIZE)
        values = trial.values
        assert values == json.dumps({"lr": 0.0})
        assert trial == RankedTrial(RunId("HD_b_0"), 0, values, RunStatus.RUNNING, 5.0, 3, STOP)

    def test_trials_without_a_number_come_last_by_their_number(self, store: TrialStore, logged: "LoggedTrials") -> None:
        store.add([a_trial(3), a_trial(20), a_trial(0)])
        logged.of(1, "great")
        logged.of(2, math.nan, math.inf, -math.inf)
        logged.of(4, 1.0)
        for goal in Goal:
            ranked = store.ranked([SWEEP], "loss", goal)
            assert [(trial.number, trial.best, trial.intervals) for trial in ranked] == [
                (4, 1.0, 1),
                (0, None, 0),
                (1, None, 0),
                (2, None, 3),
                (3, None, 0),
                (20, None, 0),
            ]
            assert ranked[1].status is RunStatus.NOT_STARTED

    @pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan, "great", 10**400, True, None])
    @pytest.mark.parametrize("at_once", [True, False])
    def test_what_is_no_finite_number_improves_nothing(
        self, store: TrialStore, logged: "LoggedTrials", odd: Any, at_once: bool
    ) -> None:
        if at_once:
            logged.of(0, 0.5, odd, 0.25)
        else:
            for value in (0.5, odd, 0.25):
                logged.of(0, value)
        best = [store.ranked([SWEEP], "loss", goal)[0].best for goal in (Goal.MAXIMIZE, Goal.MINIMIZE)]
        assert best == [0.5, 0.25]

    def test_only_the_lowest_rank_that_logs_counts(self, store: TrialStore, logged: "LoggedTrials") -> None:
        logged.of(0, 100.0, 100.0, rank=2)
        logged.of(0, 7.0, rank=1)
        logged.of(0, 200.0, rank=3)
        logged.of(0, "text", rank=0)
        logged.of(0, 6.0, rank=1)
        [trial] = store.ranked([SWEEP], "loss", Goal.MAXIMIZE)
        assert (trial.best, trial.intervals) == (7.0, 2)

    def test_equals_come_by_sweep_and_number(self, store: TrialStore, logged: "LoggedTrials") -> None:
        for sweep_id, number in ((SWEEP, 10), (SWEEP, 9), (EARLIER, 11), (EARLIER, 2)):
            logged.of(number, 1.0, sweep_id=sweep_id)
        logged.of(0, 0.5)
        ranked = store.ranked([SWEEP, EARLIER], "loss", Goal.MAXIMIZE)
        assert [trial.run_id for trial in ranked] == ["HD_a_2", "HD_a_11", "HD_b_9", "HD_b_10", "HD_b_0"]
        assert store.ranked([SWEEP, EARLIER], "loss", Goal.MAXIMIZE, limit=3) == ranked[:3]
        assert [trial.run_id for trial in store.ranked([EARLIER], "loss", Goal.MAXIMIZE)] == ["HD_a_2", "HD_a_11"]
        assert store.ranked([], "loss", Goal.MAXIMIZE) == store.ranked([RunId("nobody")], "loss", Goal.MAXIMIZE) == []

    def test_those_with_a_status_are_left_out(self, store: TrialStore, runs: RunStore, logged: "LoggedTrials") -> None:
        store.add([a_trial(4)])
        ends = (RunStatus.FAILED, RunStatus.CANCELED, RunStatus.COMPLETED)
        for number, end in enumerate(ends):
            logged.of(number, 9.0 - number)
            runs.move(runs.get(RunId(f"HD_b_{number}")), end)

        def numbers(*left_out: RunStatus, limit: int | None = None) -> list[int]:
            found = store.ranked([SWEEP], "loss", Goal.MAXIMIZE, limit=limit, leave_out=left_out)
            return [trial.number for trial in found]

        assert numbers(limit=1) == [0]
        assert numbers(RunStatus.FAILED, limit=1) == [1]
        assert numbers(RunStatus.FAILED, RunStatus.CANCELED) == [2, 4]

    def test_a_run_of_somebody_else_is_no_trials(self, store: TrialStore, runs: RunStore, metrics: MetricStore) -> None:
        store.add([a_trial(0)])
        runs.create(a_run("HD_b_0", RunStatus.RUNNING))
        metrics.append(RunId("HD_b_0"), "journal", 0, 1, [scalars("loss", 1.0)])
        [trial] = store.ranked([SWEEP], "loss", Goal.MAXIMIZE)
        assert (trial.status, trial.best) == (RunStatus.NOT_STARTED, None)

    def test_other_metrics_and_rows_of_that_name_are_not_looked_at(
        self, store: TrialStore, logged: "LoggedTrials", metrics: MetricStore
    ) -> None:
        name = "m" * 500 + "\0"
        logged.of(0, 1.0, name=name)
        logged.of(0, 5.0, name=name + "!")
        row = MetricBatch(name, MetricKind.ROW, [{"a": 3}], [None], [0.0])
        metrics.append(RunId("HD_b_0"), "rows", 0, 1, [row])
        assert [trial.best for trial in store.ranked([SWEEP], name, Goal.MAXIMIZE)] == [1.0]

    def test_trials_are_counted_by_the_status_of_their_runs(
        self, store: TrialStore, runs: RunStore, logged: "LoggedTrials"
    ) -> None:
        store.add([a_trial(10), a_trial(11), a_trial(12, EARLIER)])
        for number in range(5):
            logged.of(number, 1.0)
        for number, end in ((0, RunStatus.COMPLETED), (1, RunStatus.CANCELED), (2, RunStatus.CANCELED)):
            runs.move(runs.get(RunId(f"HD_b_{number}")), end)
        runs.create(a_run("HD_b_10", parent_id=SWEEP))
        runs.create(a_run("HD_b_11", RunStatus.COMPLETED))  # somebody else's
        store.stop(SWEEP, 1, STOP)
        assert store.tally(SWEEP) == {
            (RunStatus.NOT_STARTED, False): 2,
            (RunStatus.RUNNING, False): 2,
            (RunStatus.COMPLETED, False): 1,
            (RunStatus.CANCELED, False): 1,
            (RunStatus.CANCELED, True): 1,
        }
        assert store.tally(RunId("nobody")) == {}

    def test_metrics_are_told_with_how_many_children_logged_them(
        self, store: TrialStore, logged: "LoggedTrials", metrics: MetricStore
    ) -> None:
        for number in range(3):
            logged.of(number, "text", 1.0, name="loss")
        logged.of(0, 1.0, name="b")
        logged.of(1, 1.0, name="a")
        logged.of(9, 1.0, name="loss", sweep_id=EARLIER)
        metrics.append(RunId("HD_b_0"), "rows", 0, 1, [MetricBatch("loss", MetricKind.ROW, [{"a": 3}], [None], [0.0])])
        assert list(store.logged(SWEEP).items()) == [("loss", 3), ("a", 1), ("b", 1)]
        assert store.logged(RunId("nobody")) == {}


class LoggedTrials:
    """Helper that creates trials whose runs logged values."""

    def __init__(self, store: TrialStore, runs: RunStore, metrics: MetricStore) -> None:
        self._store, self._runs, self._metrics = store, runs, metrics
        self._offsets: dict[RunId, int] = {}

    def of(self, number: int, *values: Any, sweep_id: RunId = SWEEP, name: str = "loss", rank: int = 0) -> None:
        trial = a_trial(number, sweep_id)
        if trial.child_id not in self._offsets:
            self._store.add([trial])
            self._runs.create(a_run(trial.child_id, RunStatus.RUNNING, parent_id=sweep_id))
        end = self._offsets[trial.child_id] = self._offsets.get(trial.child_id, 0) + 1
        self._metrics.append(trial.child_id, "journal", end - 1, end, [scalars(name, *values)], rank=rank)
