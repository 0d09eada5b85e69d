"""What a sweep tries, what its sampler may learn from, and that both outlive the service."""

import json

import pytest

from runyard.core.errors import NotFound
from runyard.core.records.runs import RunId, RunStatus
from runyard.runs.kinds.sweep.sampling.observations import KnownTrial
from tests.runs.sweep_parts import SWEEP, Killed, KilledAfter, SweepYard

GRID = {"name": "GRID", "parameter_space": {"lr": ["choice", [[1, 2, 3]]]}, "properties": {}}
EARLIER = RunId("HD_0")


def test_a_trial_is_stored_and_said_before_anybody_has_it(yard: SweepYard) -> None:
    [trial] = yard.submit(sampling=GRID).sample(1)
    assert yard.stores.trials.list(SWEEP) == [trial]
    assert yard.lines() == ['GENERATOR][INFO]HD_1_0 sampled: {"lr": 1}']


def test_a_grid_ends_when_all_was_tried(yard: SweepYard) -> None:
    sweep = yard.submit(sampling=GRID)
    assert [trial.values["lr"] for trial in sweep.sample(10)] == [1, 2, 3]
    assert sweep.sample(1) == []


def test_max_total_runs_is_the_end(yard: SweepYard) -> None:
    sweep = yard.submit(max_total_runs=2)
    assert [trial.number for trial in sweep.sample(10)] == [0, 1]
    assert sweep.sample(10) == []


def test_trials_are_the_same_whether_the_service_was_killed_or_not(yard: SweepYard) -> None:
    values = [trial.values for trial in yard.submit().sample(4)]
    yard.submit(EARLIER)
    for number in range(4):
        yard.restart()
        [trial] = yard.sweep(EARLIER).sample(1)
        assert (trial.number, trial.values) == (number, values[number])


@pytest.mark.parametrize(("writes", "next_number"), [(0, 0), (1, 2), (2, 2)])
def test_a_number_is_used_once_whenever_the_service_is_killed(yard: SweepYard, writes: int, next_number: int) -> None:
    yard.submit()
    yard.restart(KilledAfter(writes))
    if writes < 2:
        with pytest.raises(Killed):
            yard.sweep().sample(2)
    else:
        yard.sweep().sample(2)
    yard.restart()
    [trial] = yard.sweep().sample(1)
    assert trial.number == next_number
    said = [line for line in yard.lines() if "sampled" in line]
    assert len(said) == len({line.split()[0] for line in said}) == next_number + 1


def test_the_sampler_knows_scores_and_who_is_pending_or_has_none(yard: SweepYard) -> None:
    yard.submit(policy=None)
    good, failed, silent, _going_on = yard.children(4)
    values = [trial.values for trial in yard.sweep().trials]
    yard.log(good, 0.4, 0.7, 0.5)
    yard.log(failed, 0.2)
    yard.log(_going_on, 0.3)
    yard.sweep().note_ended(yard.end(good))
    yard.sweep().note_ended(yard.end(failed, RunStatus.FAILED))
    yard.sweep().note_ended(yard.end(silent))
    expected = [
        KnownTrial(values[0], 0.7),
        KnownTrial(values[1], 0.2),
        KnownTrial(values[2], None),
        KnownTrial(values[3], None, is_pending=True),
    ]
    assert yard.sweep().known() == expected
    yard.restart()
    assert yard.sweep().known() == expected


def test_an_end_is_said_once_with_its_cause(yard: SweepYard) -> None:
    yard.submit()
    [failed, other] = yard.children(2)
    error = {"error": {"code": "UserError", "message": "No such file: data.csv\nTraceback ..."}}
    ended = yard.end(failed, RunStatus.FAILED, error=error)
    yard.sweep().note_ended(ended)
    yard.sweep().note_ended(ended)
    yard.end(other)
    yard.restart()  # killed before it was noted
    yard.sweep().note_ended(ended)
    yard.sweep().note_ended(yard.run(other))
    silent = "it never logged the primary metric"
    assert [line for line in yard.lines() if " ended: " in line] == [
        f"CONTROLLER][INFO]{failed} ended: Failed, {silent}. UserError: No such file: data.csv",
        f"CONTROLLER][INFO]{other} ended: Completed, {silent}.",
    ]


def test_a_cause_that_is_announced_is_said_with_its_announcement(yard: SweepYard) -> None:
    yard.submit()
    [failed] = yard.children(1)
    error = {"error": {"code": "UserError", "message": "uv says:\n\n  No solution: no-such-package\n  was not found"}}
    yard.sweep().note_ended(yard.end(failed, RunStatus.FAILED, error=error))
    [line] = [line for line in yard.lines() if " ended: " in line]
    assert line.endswith("UserError: uv says: No solution: no-such-package was not found")


def test_an_end_that_came_before_the_stop_says_so(yard: SweepYard) -> None:
    yard.submit()
    good, quick, slow = yard.children(3)
    yard.log(good, 0.9)
    for child, end in ((quick, RunStatus.COMPLETED), (slow, RunStatus.CANCELED)):
        yard.log(child, 0.1)
        yard.sweep().note_ended(yard.end(child, end))
    assert [line.partition(" ")[2] for line in yard.lines() if " ended: " in line] == [
        "ended: Completed before its stop reached it, best 0.1 of 1.",
        "ended: Canceled, best 0.1 of 1.",
    ]


def test_sweeps_that_are_resumed_from_are_known_first_and_held_against(yard: SweepYard) -> None:
    yard.submit(EARLIER, sampling=GRID)
    first, _silent = yard.children(2, EARLIER)
    yard.log(first, 0.9)
    sweep = yard.submit(resume_from=[EARLIER])
    [child] = yard.children(1)
    assert sweep.known() == [KnownTrial({"lr": 1}, 0.9), KnownTrial(sweep.trials[0].values, is_pending=True)]
    yard.log(child, 0.5)
    assert yard.canceled == [child]
    assert [best.run_id for best in [sweep.best] if best] == [child]


def test_children_that_are_resumed_come_first_with_their_values(yard: SweepYard) -> None:
    yard.submit(EARLIER, sampling=GRID)
    _, second, _ = yard.children(3, EARLIER)
    sweep = yard.submit(sampling=GRID, resume_child_runs=[second])
    trials = sweep.sample(10)
    assert [(trial.values["lr"], trial.resumed_from) for trial in trials] == [
        (2, second),
        (1, None),
        (2, None),
        (3, None),
    ]
    assert f"GENERATOR][INFO]HD_1_0 sampled: {json.dumps({'lr': 2})}, which are those of {second}" in yard.lines()


def test_all_that_is_resumed_is_kept_at_once_so_that_whence_it_came_may_go(yard: SweepYard) -> None:
    yard.submit(EARLIER, sampling=GRID)
    earlier = yard.children(3, EARLIER)
    yard.submit(sampling=GRID, resume_child_runs=earlier, max_total_runs=4)
    assert [trial.number for trial in yard.sweep().sample(1)] == [0, 1, 2]
    for run_id in [*earlier, EARLIER]:
        yard.end(run_id)
        yard.stores.runs.delete(run_id)
    assert yard.stores.trials.list(EARLIER) == []
    yard.restart()
    assert [trial.values["lr"] for trial in yard.sweep().trials] == [1, 2, 3]
    assert [trial.number for trial in yard.sweep().sample(2)] == [3]


def test_a_child_whose_trial_is_gone_cannot_be_resumed(yard: SweepYard) -> None:
    with pytest.raises(NotFound, match="resume_child_runs names 'HD_9_3'"):
        yard.submit(resume_child_runs=["HD_9_3"]).sample(1)


def test_there_is_one_object_of_a_sweep_until_it_is_forgotten(yard: SweepYard) -> None:
    sweep = yard.submit()
    assert yard.sweep() is sweep
    yard.live.forget(SWEEP)
    assert yard.sweep() is not sweep


def test_every_sweep_that_goes_on_is_kept_however_many_there_are(yard: SweepYard) -> None:
    first = yard.submit()
    others = [yard.submit(RunId(f"HD_x{place}")) for place in range(150)]
    assert yard.sweep() is first
    assert [yard.sweep(RunId(f"HD_x{place}")) for place in range(150)] == others
    for place in range(150):
        yard.live.forget(RunId(f"HD_x{place}"))
    assert list(yard.live._kept) == [SWEEP]


def test_a_sweep_that_has_ended_is_read_and_not_kept(yard: SweepYard) -> None:
    yard.submit()
    [child] = yard.children(1)
    yard.log(child, 0.9)
    yard.live.forget(SWEEP)
    yard.end(SWEEP)
    assert [best.value for best in [yard.sweep().best] if best] == [0.9]
    yard.log(child, 0.95)
    assert len(yard.live._kept) == 0
