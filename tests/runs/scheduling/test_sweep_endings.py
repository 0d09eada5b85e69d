"""The end of a sweep from how its children ended: a table, both ways round."""

from typing import Any

import pytest

from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.kinds.sweep.finalizer import BestChild, SweepOutcome, end_of_sweep
from runyard.testing.records import a_run

_S = RunStatus
BEST = BestChild(RunId("HD_x_0"), 0.9)
BARRED = "The environment cannot be made: no xyzzy"
NO_BEST = {"best_metric_status": "No child logged a number of the primary metric 'acc'."}


def child(number: int, status: RunStatus, message: str = "ValueError: no", code: str = "UserError") -> RunRecord:
    error = {"error": {"code": code, "message": message}} if status is _S.FAILED else None
    return a_run(f"HD_x_{number}", status, sequence=number, error=error)


def outcome(ends: str, **more: Any) -> SweepOutcome:
    """`ends`: a letter for each child, c(ompleted), f(ailed), x (canceled)."""
    statuses = {"c": _S.COMPLETED, "f": _S.FAILED, "x": _S.CANCELED}
    return SweepOutcome("acc", [child(number, statuses[end]) for number, end in enumerate(ends)], **more)


def named(*numbers: int) -> frozenset[RunId]:
    return frozenset(RunId(f"HD_x_{number}") for number in numbers)


TABLE = [
    ("all completed", outcome("ccc", best=BEST), _S.COMPLETED, []),
    ("some failed", outcome("cfc", best=BEST), _S.COMPLETED, ["1 of 3 children failed: HD_x_1."]),
    ("all failed", outcome("ff"), _S.FAILED, []),
    ("the only one failed", outcome("f"), _S.FAILED, []),
    ("all failed, but had logged", outcome("ff", best=BEST), _S.FAILED, []),
    ("canceled by users alone", outcome("xx"), _S.COMPLETED, ["2 of 2 children were canceled, each by itself: HD_x_0"]),
    ("canceled by users, the others failed", outcome("xf"), _S.FAILED, ["1 of 2 children were canceled"]),
    ("stopped by a policy, the others failed", outcome("xf", best=BEST, stopped=named(0)), _S.COMPLETED, ["1 of 2 "]),
    ("nothing logged", outcome("cc"), _S.COMPLETED, ["They logged no metric at all."]),
    ("something else logged", outcome("cc", logged={"loss": 2}), _S.COMPLETED, ["What they did log: 'loss' (in 2)."]),
    ("logged as a text", outcome("cc", logged={"acc": 2}), _S.COMPLETED, ["in 2 children, but never as a finite"]),
    (
        "its time was over",
        outcome("cxx", best=BEST, left_out=3, cut_off=named(1, 2), minutes=5),
        _S.COMPLETED,
        ["max_duration_minutes (5) was over: 2 children canceled that went on, and 3 trials were not begun."],
    ),
    ("its time was over, what had ended failed", outcome("fx", left_out=1, cut_off=named(1)), _S.FAILED, ["max_dur"]),
    ("its time was over before anything was made", outcome("", left_out=4), _S.COMPLETED, ["max_duration_minutes"]),
    ("canceled", outcome("cx", is_canceled=True, best=BEST), _S.CANCELED, []),
    ("canceled before anything logged", outcome("xx", is_canceled=True), _S.CANCELED, []),
    ("canceled when all had failed", outcome("ff", is_canceled=True), _S.CANCELED, ["2 of 2 children failed"]),
    ("barred", outcome("cf", best=BEST, left_out=3, barred=BARRED), _S.FAILED, []),
    ("barred at the last child", outcome("cf", best=BEST, barred=BARRED), _S.COMPLETED, ["1 of 2 children failed"]),
    ("canceled while barred", outcome("f", left_out=0, barred=BARRED, is_canceled=True), _S.CANCELED, ["1 of 1"]),
]


@pytest.mark.parametrize(("found", "status", "warnings"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_sweep_ends_as_its_children_have(found: SweepOutcome, status: RunStatus, warnings: list[str]) -> None:
    end = end_of_sweep(found)
    assert end.status is status
    assert len(end.warnings) == len(warnings)
    for said, expected in zip(end.warnings, warnings, strict=True):
        assert expected in said
    assert (end.error is not None) == (status is _S.FAILED)
    expected_best = {"score": "0.9", "best_child_run_id": "HD_x_0", "best_metric_status": "Succeeded"}
    assert end.properties == (expected_best if found.best else NO_BEST)


def test_causes_that_differ_in_numbers_alone_are_one() -> None:
    causes = ["ValueError: lr 0.1 is bad", "OSError: disk", "ValueError: lr 2e-05 is bad"]
    children = [child(number, _S.FAILED, cause) for number, cause in enumerate(causes)]
    message = end_of_sweep(SweepOutcome("acc", children)).error["error"]["message"]
    expected = "The commonest cause, of 2 (as of HD_x_0): ValueError: lr 0.1 is bad"
    assert message == f"All 3 children failed. {expected}"


def test_a_cause_of_the_platform_is_told_as_such() -> None:
    children = [child(0, _S.FAILED, "No room.\nTry later.", "ServiceError")]
    error = end_of_sweep(SweepOutcome("acc", children)).error["error"]
    assert (error["code"], error["message"]) == (
        "ServiceError",
        "1 of 1 child failed. The cause (as of HD_x_0): No room.",
    )


def test_a_cause_that_is_announced_is_told_with_what_follows() -> None:
    children = [child(0, _S.FAILED, "Resolving the packages failed. uv says:\n  there is no xyzzy\n")]
    message = end_of_sweep(SweepOutcome("acc", children)).error["error"]["message"]
    assert message.endswith("Resolving the packages failed. uv says: there is no xyzzy")


def test_what_was_in_the_way_of_further_children_is_the_cause() -> None:
    error = end_of_sweep(outcome("ff", left_out=3, barred=BARRED)).error["error"]
    assert error["message"] == f"3 trials were not begun, and 2 of 2 children failed. {BARRED}"


def test_the_log_has_the_cause_and_the_warnings() -> None:
    end = end_of_sweep(outcome("fx", left_out=1, cut_off=named(1), minutes=5))
    assert end.lines == [end.text, end.error["error"]["message"], *end.warnings]


def test_children_without_a_cause_are_told_too() -> None:
    found = SweepOutcome("acc", [a_run("HD_x_0", _S.FAILED)])
    assert end_of_sweep(found).error["error"]["message"].endswith("it is not known")


def test_only_the_first_ten_of_many_are_named() -> None:
    warning = end_of_sweep(outcome("c" + "f" * 12, best=BEST)).warnings[0]
    assert "12 of 13 children failed: HD_x_1, " in warning
    assert "HD_x_10 and 2 more." in warning
    assert "HD_x_11" not in warning


def test_the_last_line_counts_all() -> None:
    found = outcome("ccfxx", best=BEST, stopped=named(4))
    expected = "Of 5 children: 2 Completed, 1 Failed, 2 Canceled (1 of them stopped by the policy). Best 'acc': 0.9 of"
    assert expected in end_of_sweep(found).text
