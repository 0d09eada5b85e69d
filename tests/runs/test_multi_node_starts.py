import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runyard.core.definitions.node_report import NodeReport, ReportedError
from runyard.core.records.nodes import NodeTask, NodeTaskState
from runyard.core.records.runs import AttemptId
from runyard.runs.scheduling.attempt_outcome import (
    AttemptDecision,
    decide_attempt,
    end_report,
    lost_task,
    single_node_end_report,
    stopping_message,
)

AT = datetime(2026, 1, 2, tzinfo=UTC)
ATTEMPT = AttemptId("r_1.1")
NAMES = ("cpu-cluster-0", "cpu-cluster-1", "cpu-cluster-2")
CRASH = {"code": "UserError", "message": "User program failed with ValueError: bad."}


def part(node: int, state: NodeTaskState, *, seconds: float = 0, **facts: Any) -> NodeTask:
    ready = {"address": f"127.0.3.{2 + node}", "ports": {}, "door": None, "network": None, "is_essential": True}
    return NodeTask(ATTEMPT, node, state, AT + timedelta(seconds=seconds), {**ready, **facts})


def failed(node: int, *, seconds: float = 0, **facts: Any) -> NodeTask:
    return part(
        node, NodeTaskState.ENDED, seconds=seconds, **{"outcome": "failed", "error": CRASH, "rank": node, **facts}
    )


def told(node: int, outcome: str = "failed", **facts: Any) -> NodeTask:
    return part(node, NodeTaskState.ENDED, seconds=60, outcome=outcome, **facts)


def message(decision: AttemptDecision, parts: list[NodeTask]) -> str:
    return end_report(decision, parts, NAMES).error.message


def test_nobody_starts_before_all_nodes_are_ready():
    assert decide_attempt(2, []) == AttemptDecision()
    assert decide_attempt(2, [part(0, NodeTaskState.READY)]) == AttemptDecision()


def test_the_roster_is_what_nodes_must_know_of_one_another_by_node():
    parts = [part(1, NodeTaskState.READY, ports={"master": 6105}, pid=7), part(0, NodeTaskState.READY)]
    roster = decide_attempt(2, parts).roster
    assert [node["address"] for node in roster] == ["127.0.3.2", "127.0.3.3"]
    assert roster[1]["ports"] == {"master": 6105}
    assert "pid" not in roster[1]


def test_a_node_that_asks_late_gets_the_roster_although_others_run():
    assert decide_attempt(2, [part(0, NodeTaskState.RUNNING), part(1, NodeTaskState.READY)]).roster is not None


def test_a_node_that_failed_before_it_was_ready_stops_the_others():
    broken = NodeTask(ATTEMPT, 1, NodeTaskState.ENDED, AT, {"outcome": "failed", "error": {"message": "No space."}})
    decision = decide_attempt(3, [part(0, NodeTaskState.READY), broken])
    assert (decision.roster, decision.stop, decision.outcome) == (None, "failed", None)


def test_runs_go_on_while_an_essential_part_does():
    parts = [
        part(0, NodeTaskState.DONE),
        part(1, NodeTaskState.RUNNING),
        part(2, NodeTaskState.RUNNING, is_essential=False),
    ]
    assert decide_attempt(3, parts).stop is None


def test_parameter_servers_are_stopped_once_the_workers_are_done():
    parts = [
        part(0, NodeTaskState.DONE),
        part(1, NodeTaskState.ENDED, outcome="completed"),
        part(2, NodeTaskState.RUNNING, is_essential=False),
    ]
    decision = decide_attempt(3, parts)
    assert (decision.stop, decision.outcome) == ("completed", None)


def test_nodes_without_anything_essential_do_not_end_a_run_before_it_began():
    idle = part(1, NodeTaskState.DONE, is_essential=False)
    assert decide_attempt(2, [idle]).stop is None
    assert decide_attempt(2, [idle, part(0, NodeTaskState.READY)]).stop is None


def test_a_run_is_completed_when_all_parts_have_ended_well():
    parts = [part(0, NodeTaskState.ENDED, outcome="completed"), told(1, "completed", is_essential=False)]
    decision = decide_attempt(2, parts)
    assert (decision.stop, decision.outcome, decision.cause) == (None, "completed", None)
    assert end_report(decision, parts, NAMES).exit_code == 0


def test_the_first_failure_stops_the_rest_and_is_the_cause():
    running = [part(0, NodeTaskState.RUNNING), failed(1, exit_code=3)]
    assert (decide_attempt(2, running).stop, decide_attempt(2, running).outcome) == ("failed", None)
    ended = [told(0), failed(1, exit_code=3)]
    decision = decide_attempt(2, ended)
    assert (decision.stop, decision.outcome, decision.cause) == (None, "failed", ended[1])


def failing(node: int, **facts: Any) -> NodeTask:
    return replace(failed(node, **facts), state=NodeTaskState.FAILING)


def test_a_part_that_has_failed_stops_the_others_before_it_has_ended():
    parts = [part(0, NodeTaskState.RUNNING), failing(1, exit_code=3)]
    decision = decide_attempt(2, parts)
    assert (decision.stop, decision.outcome, decision.cause) == ("failed", None, parts[1])
    waiting = decide_attempt(2, [told(0), parts[1]])
    assert (waiting.stop, waiting.outcome) == ("failed", None)


def test_a_part_that_still_delivers_may_turn_out_to_be_the_cause():
    parts = [failing(0, exit_code=1), failing(1, seconds=1, signal=9)]
    assert decide_attempt(2, parts).cause == parts[1]


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (failed(1, exit_code=3), "Rank 1 on node cpu-cluster-1 failed"),
        (failed(0, exit_code=3, rank=2, failed_node=2), "Rank 2 on node cpu-cluster-2 failed"),
        (failed(0, exit_code=1, rank=None), "Node cpu-cluster-0 failed"),
        (failed(1), "Node cpu-cluster-1 failed"),
        (lost_task(ATTEMPT, 1, AT, "its raylet died"), "Node cpu-cluster-1 was lost"),
    ],
)
def test_who_failed_is_said_while_the_others_are_stopped(cause: NodeTask, said: str):
    assert stopping_message(cause, NAMES) == f"{said}; stopping the others."


def test_an_output_has_as_many_files_as_the_last_node_saw():
    parts = [told(0, "completed", outputs={"out": 2}), told(1, "completed", outputs={"out": 5, "other": 0})]
    assert end_report(decide_attempt(2, parts), parts, NAMES).outputs == {"out": 5, "other": 0}


def test_the_cause_is_who_failed_first_not_whose_report_came_first():
    late = failed(0, seconds=1, failed_at=(AT - timedelta(seconds=8)).isoformat())
    early = failed(1, seconds=0, failed_at=AT.isoformat())
    assert decide_attempt(2, [early, late]).cause == late


@pytest.mark.parametrize("facts", [{"signal": 9}, {"signal": 11}, {"signal": 9, "oom": True}])
def test_a_death_by_force_explains_a_peers_exit_shortly_before(facts):
    parts = [failed(0, exit_code=1), failed(1, seconds=2, **facts)]
    assert decide_attempt(2, parts).cause == parts[1]


def test_a_death_by_force_long_after_explains_nothing():
    parts = [failed(0, exit_code=1), failed(1, seconds=4, signal=9)]
    assert decide_attempt(2, parts).cause == parts[0]


def test_an_abort_over_a_lost_peer_is_no_cause():
    parts = [failed(0, exit_code=1), failed(1, seconds=1, signal=6)]
    assert decide_attempt(2, parts).cause == parts[0]


def test_a_lost_node_explains_all_else_however_late_it_is_noticed():
    lost = lost_task(ATTEMPT, 1, AT + timedelta(seconds=40), "its raylet died")
    parts = [failed(0, signal=9), lost]
    decision = decide_attempt(2, parts)
    assert decision.cause == lost
    assert message(decision, parts) == "Node cpu-cluster-1 was lost: its raylet died."


def test_a_cancel_is_a_cancel_even_if_a_peer_fell_over_it():
    parts = [failed(0, exit_code=1), told(1, "canceled")]
    decision = decide_attempt(2, parts)
    assert (decision.outcome, decision.cause) == ("canceled", None)
    assert end_report(decision, parts, NAMES).error is None


def test_a_time_limit_of_one_node_stops_all_and_is_said_as_it_is():
    limit = told(1, "canceled", error={"code": "UserError", "message": "It ran for 60 s."})
    assert decide_attempt(2, [part(0, NodeTaskState.RUNNING), limit]).stop == "canceled"
    parts = [told(0, "canceled"), limit]
    assert message(decide_attempt(2, parts), parts) == "It ran for 60 s."


def test_the_error_names_rank_node_exit_code_and_last_lines():
    parts = [told(0), failed(1, exit_code=3, tail="one\ntwo", log="azureml-logs/70_driver_log_1.txt")]
    report = end_report(decide_attempt(2, parts), parts, NAMES)
    assert report.error == ReportedError(
        "UserError",
        "User program failed with ValueError: bad; rank 1 on node cpu-cluster-1 (127.0.3.3) exited with "
        "code 3; its log is azureml-logs/70_driver_log_1.txt.",
    )
    assert (report.outcome, report.rank, report.exit_code, report.tail) == ("failed", 1, 3, "one\ntwo")


def test_a_signal_is_told():
    parts = [told(0), failed(1, exit_code=137, signal=9, error={"message": "User program was killed."})]
    assert message(decide_attempt(2, parts), parts) == (
        "User program was killed; rank 1 on node cpu-cluster-1 (127.0.3.3) was killed by signal 9."
    )


def test_a_failure_outside_of_the_script_is_told_with_its_node_alone():
    parts = [told(0), failed(1, exit_code=0, error={"message": "2 files could not be delivered."})]
    assert (
        message(decide_attempt(2, parts), parts) == "2 files could not be delivered; on node cpu-cluster-1 (127.0.3.3)."
    )


def test_a_launchers_blame_gets_the_last_lines_from_the_ranks_own_node():
    blame = failed(
        0, rank=2, failed_node=1, exit_code=3, tail="", error={"code": "UserError", "message": "mpirun failed."}
    )
    keeper = told(
        1, last_lines={"2": {"tail": "Traceback", "raised": "KeyError: 'x'"}, "3": {"tail": "fine", "raised": ""}}
    )
    report = end_report(decide_attempt(2, [blame, keeper]), [blame, keeper], NAMES)
    assert report.tail == "Traceback"
    assert report.error.message == (
        "User program failed with KeyError: 'x'; rank 2 on node cpu-cluster-1 (127.0.3.3) exited with code 3."
    )


def test_one_node_of_several_processes_names_the_rank_too():
    lines = {"2": {"tail": "Traceback", "raised": "KeyError: 'x'"}}
    report = {
        "outcome": "failed",
        "error": {"code": "UserError", "message": "mpirun failed."},
        "rank": 2,
        "exit_code": 1,
    }
    told_of = single_node_end_report(NodeReport.parse({**report, "state": "ended", "last_lines": lines}), "local")
    assert told_of.tail == "Traceback"
    assert told_of.error == ReportedError(
        "UserError", "User program failed with KeyError: 'x'; rank 2 on node local exited with code 1."
    )
    fine = NodeReport("ended", outcome="completed")
    assert single_node_end_report(fine, "local") == fine


def test_warnings_and_what_was_not_delivered_come_from_all_parts():
    parts = [
        told(0, "completed", warnings=["a", "b"], undelivered=1),
        told(1, "completed", warnings=["b"], undelivered=2),
    ]
    report = end_report(decide_attempt(2, parts), parts, NAMES)
    assert (report.warnings, report.undelivered) == (("a", "b"), 3)


def test_the_order_in_which_parts_came_changes_nothing():
    parts = [
        failed(0, seconds=1, exit_code=1),
        failed(1, seconds=1, exit_code=1),
        failed(2, seconds=2, signal=9),
        told(3),
        part(4, NodeTaskState.RUNNING),
    ]
    expected = decide_attempt(6, parts)
    shuffled = random.Random(4)
    for _ in range(20):
        shuffled.shuffle(parts)
        assert decide_attempt(6, parts) == expected
    assert expected.cause is not None
    assert expected.cause.node == 2
