"""What a supervisor does with what the service answers to its reports, logs and journals."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import AttemptOver, Forbidden, StorageFull, Unauthorized
from runyard.core.records.launch_plan import EnvironmentSpec, LaunchPlan, NodePlan
from runyard.core.records.runs import AttemptId, RunId
from runyard.node.service_client import connect_to_service
from runyard.node.shipping.report_queue import ReportQueue
from tests.client.scripted_service import HangUp, Reply, ScriptedService, refusal_of, scripted

LOG = "azureml-logs/70_driver_log.txt"
JOURNAL = "run1~0-1-abc"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ScriptedService]:
    with scripted(tmp_path / "home") as made:
        yield made


@pytest.fixture
def queue(service: ScriptedService) -> ReportQueue:
    plan = LaunchPlan(
        attempt_id=AttemptId("run1.1"),
        run_id=RunId("run1"),
        kind="run",
        environment=EnvironmentSpec(),
        nodes=(NodePlan("127.0.0.1", ()),),
    )
    return ReportQueue(plan, connect_to_service(service.home, "t"), lambda end_as: None)


@pytest.fixture
def deliveries(queue: ReportQueue, tmp_path: Path) -> ReportQueue:
    """A queue with a report, a piece of a log and a line of a journal to deliver."""
    (tmp_path / "log.txt").write_bytes(b"printed")
    (tmp_path / f"{JOURNAL}.jsonl").write_bytes(b"[1]\n")
    queue.report("running")
    queue.logs.files.changed(LOG, tmp_path / "log.txt")
    queue.journals.changed(tmp_path / f"{JOURNAL}.jsonl")
    return queue


def ship_all(deliveries: ReportQueue) -> None:
    """Rounds without the pauses between them."""
    for _ in range(20):
        if not deliveries.pending:
            return
        deliveries.ship()
    raise AssertionError("Something is never delivered.")


def paths(service: ScriptedService) -> list[str]:
    return [seen.path.partition("?")[0].removeprefix("/api/v1/") for seen in service.seen]


REPORT, LOGS, JOURNALS = "attempts/run1.1/report", f"runs/run1/logs/{LOG}", f"runs/run1/journals/{JOURNAL}"


@pytest.mark.parametrize("trouble", [refusal_of(Unauthorized), refusal_of(StorageFull), Reply(500, b""), HangUp()])
def test_a_report_that_may_pass_is_sent_again_before_anything_else(
    service: ScriptedService, deliveries: ReportQueue, trouble: Reply | HangUp
) -> None:
    service.answers(trouble, trouble)
    ship_all(deliveries)
    assert paths(service)[-3:] == [REPORT, LOGS, JOURNALS]
    assert set(paths(service)[:-2]) == {REPORT}
    assert deliveries.warnings == []
    assert (deliveries.logs.refused, deliveries.journals.refused) == ({}, {})


def test_what_is_forbidden_is_told_and_not_sent_again(service: ScriptedService, deliveries: ReportQueue) -> None:
    service.answers(*[refusal_of(Forbidden)] * 3)
    ship_all(deliveries)
    assert paths(service) == [REPORT, LOGS, JOURNALS]
    assert deliveries.warnings == ["The service refused the report 'running': It is so. Do this."]
    assert deliveries.logs.refused == {LOG: "It is so. Do this."}
    assert deliveries.journals.refused == {JOURNAL: "It is so. Do this."}


def test_an_attempt_that_is_over_delivers_nothing_more(service: ScriptedService, deliveries: ReportQueue) -> None:
    for answers in ([refusal_of(AttemptOver)], [Reply(), refusal_of(AttemptOver)]):
        service.answers(*answers)
        with pytest.raises(AttemptOver):
            deliveries.ship()
    assert paths(service) == [REPORT, REPORT, LOGS]


def test_a_report_that_is_refused_otherwise_holds_up_no_log(service: ScriptedService, deliveries: ReportQueue) -> None:
    service.answers(Reply(400, b"no"), Reply())
    ship_all(deliveries)
    assert paths(service) == [REPORT, LOGS, JOURNALS]


def reports(service: ScriptedService) -> list[dict[str, Any]]:
    return [json.loads(seen.body) for seen in service.seen if seen.path.endswith("/report")]


def test_a_script_that_ends_at_once_has_one_report_with_its_start(service: ScriptedService, queue: ReportQueue) -> None:
    queue.report_running(pid=7, started_at="2026-01-01T00:00:00Z", lock="a==1")
    queue.ship()
    assert not queue.pending
    queue.report_end(outcome="completed")
    ship_all(queue)
    ended = {"state": "ended", "node": 0, "started_at": "2026-01-01T00:00:00Z", "lock": "a==1", "outcome": "completed"}
    assert reports(service) == [ended]
    assert queue.seconds_to_next() is None


def test_a_held_report_is_sent_after_its_moment(service: ScriptedService, queue: ReportQueue) -> None:
    queue.report_running(pid=7)
    while (seconds := queue.seconds_to_next()) != 0:
        assert seconds is not None
        assert not service.seen
        threading.Event().wait(seconds)
    queue.ship()
    queue.report_end(outcome="completed")
    ship_all(queue)
    assert [report["state"] for report in reports(service)] == ["running", "ended"]
    assert "started_at" not in reports(service)[1]


def test_a_held_report_comes_before_the_next_one(service: ScriptedService, queue: ReportQueue) -> None:
    queue.report_running(pid=7)
    queue.report("finalizing", message="Uploading.")
    ship_all(queue)
    assert [report["state"] for report in reports(service)] == ["running", "finalizing"]


def test_a_held_report_holds_up_no_log(service: ScriptedService, queue: ReportQueue, tmp_path: Path) -> None:
    queue.report_running(pid=7)
    (tmp_path / "log.txt").write_bytes(b"printed")
    queue.logs.files.changed(LOG, tmp_path / "log.txt")
    assert queue.seconds_to_next() == 0
    queue.ship()
    assert paths(service) == [LOGS]


def test_a_held_report_that_is_due_waits_for_a_service_that_is_away(
    service: ScriptedService, queue: ReportQueue
) -> None:
    queue.resume_from_service()
    queue.report_running(pid=7)
    while (seconds := queue.seconds_to_next()) != 0:
        assert seconds is not None
        threading.Event().wait(seconds)
    service.close()
    queue.ship()
    assert queue.seconds_to_next() != 0
