"""Real scripts in real processes, seen through the wire alone."""

import os
import sys

import pytest

HELLO = b"""
import os
os.makedirs("outputs", exist_ok=True)
with open("outputs/answer.txt", "w") as file:
    file.write("42")
print("hello from the run", flush=True)
"""
UNTIL_KILLED = b"print('up', flush=True)\nimport signal\nsignal.pause()\n"


@pytest.fixture
def submit(client):
    def submitted(run_id, script, **definition):
        entry = ["train.py", client.put_blob(script), len(script), 0o644]
        variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        whole = {
            "script": "train.py",
            "arguments": [],
            "target": "local",
            "environment": {"python": {"userManagedDependencies": True, "interpreterPath": sys.executable}},
            "runyard": {"submitter": {"python": sys.executable, "variables": variables}, "cancel_grace_seconds": 1},
            **definition,
        }
        body = {"run_id": run_id, "definition": whole, "snapshot": [entry]}
        return client.post(f"{client.here}/experiments/whole/runs", body)

    return submitted


def driver_text(lines):
    return "".join(line["text"] for line in lines if line.get("log", "").startswith("azureml-logs/70"))


def test_a_script_runs_and_leaves_its_log_and_outputs(client, submit):
    submit("whole-1", HELLO)
    lines = list(client.lines("/runs/whole-1/stream", timeout=60))
    assert lines[-1]["end"]["status"] == "Completed", lines[-1]
    assert "hello from the run\n" in driver_text(lines)
    assert client.read("/runs/whole-1/files/outputs/answer.txt") == b"42"
    made = client.post(
        f"{client.here}/assets/models", {"name": "m", "run_id": "whole-1", "model_path": "outputs/answer.txt"}
    )
    assert made["body"]["files"][0][0] == "answer.txt"
    names = [phase["name"] for phase in client.get("/runs/whole-1")["phases"]]
    assert names[0] == "NotStarted"
    assert "Running" in names


def test_logs_that_the_service_refuses_are_named_and_cost_the_run_nothing_else(client, submit):
    script = b"""
import os
os.makedirs("logs/" + "/".join(["d" * 200] * 6))
for name in ("good.txt", "a\\\\..\\\\c.txt", "/".join(["d" * 200] * 6) + "/deep.txt"):
    with open("logs/" + name, "w") as file:
        file.write("text")
"""
    submit("whole-refused", script)
    end = list(client.lines("/runs/whole-refused/stream", timeout=60))[-1]["end"]
    assert end["status"] == "Completed", end["error"]
    assert client.read("/runs/whole-refused/logs/logs/good.txt") == b"text"
    told = [warning for warning in end["warnings"] if "could not be delivered" in warning]
    assert [("leads out of" in one, "too long" in one) for one in sorted(told)] == [(True, False), (False, True)]


def test_a_script_that_exits_3_fails_with_a_cause(client, submit):
    submit("whole-2", b"import sys\nsys.exit(3)\n")
    end = list(client.lines("/runs/whole-2/stream", timeout=60))[-1]["end"]
    assert end["status"] == "Failed"
    assert "3" in end["error"]["error"]["message"]


def test_a_cluster_is_held_until_its_run_is_canceled(client, submit):
    computes = f"{client.here}/assets/computes"
    client.post(computes, {"name": "cpu", "body": {"max_nodes": 1}})
    submit("whole-3", UNTIL_KILLED, target="cpu")
    stream = client.lines("/runs/whole-3/stream", timeout=60)
    assert any("up" in line.get("text", "") for line in stream)
    refused = client.refusal("DELETE", f"{computes}/cpu")
    assert refused["code"] == "conflict"
    assert "whole-3" in refused["problem"]
    status = client.get(f"{client.here}/computes/cpu/status")
    assert (status["current"], status["counts"]["running"]) == (1, 1)
    client.post("/runs/whole-3/cancel")
    assert list(client.lines("/runs/whole-3/stream", timeout=60))[-1]["end"]["status"] == "Canceled"
    client.delete(f"{computes}/cpu")
