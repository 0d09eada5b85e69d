"""Runs moved on by the real service, its agent and its supervisors."""

import pytest

from tests.runs.scheduling.conftest import WAITS, Submitter


def test_a_local_run_goes_through_its_states_to_the_end(submitter: Submitter):
    run = submitter.ended(submitter.submit("print('hello')"))
    assert run["status"] == "Completed"
    passed = [status for status in submitter.statuses(run["id"]) if status != "Finalizing"]
    assert passed[-3:] == ["Starting", "Running", "Completed"]
    assert b"hello" in submitter.client.read(f"/runs/{run['id']}/files/azureml-logs/70_driver_log.txt")
    assert run["exit_facts"]["exit_code"] == 0


def test_a_run_with_files_left_to_deliver_is_finalizing(submitter: Submitter):
    script = "import os\nfor n in range(300): open(f'outputs/{n}', 'wb').write(os.urandom(10_000))"
    run = submitter.ended(submitter.submit(script))
    assert submitter.statuses(run["id"])[-2:] == ["Finalizing", "Completed"]


def test_a_failing_script_leaves_an_error_a_person_can_act_on(submitter: Submitter):
    run = submitter.ended(submitter.submit("print('before')\nraise ValueError('too small')"))
    assert run["status"] == "Failed"
    error = run["error"]["error"]
    assert error["message"] == "User program failed with ValueError: too small"
    assert error["messageParameters"]["exit_code"] == "1"
    assert "before" in error["details"][0]["message"]


def test_data_that_went_while_a_run_waited_fails_it_with_the_reason(submitter: Submitter, tmp_path):
    client = submitter.client
    submitter.make_cluster("one")
    folder = {"kind": "folder", "settings": {"folder": str(tmp_path)}}
    client.post(f"{client.here}/datastores", {"name": "scans", **folder})
    first = submitter.submit(WAITS, target="one", variables={"GO": str(tmp_path / "go")})
    submitter.wait_for(first, "Running")
    waiting = submitter.submit(
        "pass", target="one", dataReferences={"ref": {"dataStoreName": "scans", "mode": "Mount"}}
    )
    submitter.wait_for(waiting, "Queued")
    client.delete(f"{client.here}/assets/datastores/scans")
    (tmp_path / "go").touch()
    run = submitter.ended(waiting)
    assert run["status"] == "Failed"
    assert "'scans'" in run["error"]["error"]["message"]


def test_a_running_run_is_canceled(submitter: Submitter):
    run_id = submitter.submit("import time; time.sleep(600)")
    submitter.wait_for(run_id, "Running")
    submitter.cancel(run_id)
    run = submitter.ended(run_id)
    assert run["status"] == "Canceled"
    assert "CancelRequested" in submitter.statuses(run_id)


def test_a_canceled_run_takes_the_runs_it_submitted_along(submitter: Submitter):
    parent = submitter.submit("import time; time.sleep(600)")
    child = submitter.submit("import time; time.sleep(600)", parent_id=parent)
    submitter.wait_for(child, "Running")
    submitter.cancel(parent)
    assert submitter.ended(parent)["status"] == submitter.ended(child)["status"] == "Canceled"
    submission = {"run_id": f"{parent}-late", "parent_id": parent, "definition": {"target": "local", "command": "true"}}
    refused = submitter.client.refusal("POST", f"{submitter.client.here}/experiments/moves/runs", submission)
    assert parent in refused["problem"]


def test_a_cancel_right_after_the_submit_takes(submitter: Submitter):
    run_id = submitter.submit("import time; time.sleep(600)")
    submitter.cancel(run_id)
    assert submitter.ended(run_id)["status"] == "Canceled"


@pytest.mark.parametrize("end", ["Failed", "Completed"])
def test_a_submitter_decides_how_a_running_run_ends(submitter: Submitter, end: str):
    script = "import os, time\nopen('outputs/half', 'w').close()\nprint('up', flush=True)\n"
    run_id = submitter.submit(script + "time.sleep(600)")
    submitter.wait_for_output(run_id, "up")
    submitter.client.patch(f"/runs/{run_id}", {"status": end, "error": {"error": {"code": "Why", "message": "so"}}})
    run = submitter.ended(run_id)
    assert (run["status"], run["error"]["error"]["code"]) == (end, "Why")
    assert submitter.client.read(f"/runs/{run_id}/files/outputs/half") == b""
    assert submitter.client.refusal("PATCH", f"/runs/{run_id}", {"status": "Canceled"})["code"] == "conflict"


def test_a_queued_run_can_be_failed_too(submitter: Submitter, tmp_path):
    submitter.make_cluster("one")
    running = submitter.submit(WAITS, target="one", variables={"GO": str(tmp_path / "go")})
    submitter.wait_for(running, "Running")
    queued = submitter.submit("pass", target="one")
    submitter.wait_for(queued, "Queued")
    submitter.client.patch(f"/runs/{queued}", {"status": "Failed"})
    assert submitter.ended(queued)["status"] == "Failed"
    (tmp_path / "go").touch()
    assert submitter.ended(running)["status"] == "Completed"


def test_a_cluster_makes_a_node_for_a_run_and_keeps_it_idle_afterwards(submitter: Submitter):
    submitter.make_cluster("small", idle_seconds_before_scaledown=600)
    run = submitter.ended(submitter.submit("pass", target="small"))
    assert run["status"] == "Completed"
    assert "Queued" in submitter.statuses(run["id"])
    assert [node["state"] for node in submitter.nodes("small")] == ["idle"]


def test_the_second_run_of_a_full_cluster_waits_and_says_for_what(submitter: Submitter, tmp_path):
    submitter.make_cluster("one")
    go = tmp_path / "go"
    first = submitter.submit(WAITS, target="one", variables={"GO": str(go)})
    submitter.wait_for(first, "Running")
    second = submitter.submit("pass", target="one")
    third = submitter.submit("pass", target="one")
    waiting = submitter.wait_for(second, "Queued")
    while "held by" not in waiting["message"]:
        waiting = submitter.client.get(f"/runs/{second}/wait?version={waiting['version']}&timeout=10")
    assert waiting["message"] == f"Waiting for 1 node of 'one': 0 ready, 1 held by run {first}."
    go.touch()
    assert submitter.ended(second)["status"] == "Completed"
    assert submitter.ended(third)["started_at"] > submitter.get(second)["ended_at"]


def test_a_queued_run_is_canceled_at_once_and_lets_the_next_through(submitter: Submitter, tmp_path):
    submitter.make_cluster("one")
    go = tmp_path / "go"
    first = submitter.submit(WAITS, target="one", variables={"GO": str(go)})
    submitter.wait_for(first, "Running")
    second = submitter.submit("pass", target="one")
    submitter.wait_for(second, "Queued")
    assert submitter.cancel(second)["status"] == "Canceled"
    third = submitter.submit("pass", target="one")
    go.touch()
    assert submitter.ended(third)["status"] == "Completed"
    assert submitter.statuses(second)[-1] == "Canceled"
