"""Runs on several nodes of this machine: real supervisors, plain scripts, no framework."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.runs.scheduling.conftest import Submitter

pytestmark = pytest.mark.slow

TALKS = """
import os, socket
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(place)
    heard = sorted(server.accept()[0].recv(10).decode() for _ in range(size - 1))
    print("heard", ",".join(heard), flush=True)
else:
    import time
    while True:
        try:
            socket.create_connection(place).sendall(str(rank).encode())
            break
        except OSError:
            time.sleep(0.05)
from azureml.core import Run
Run.get_context().log("rank", rank)
"""
ONE_FAILS = """
import os, sys, time
rank = int(os.environ["RANK"])
print(f"here is {rank}", flush=True)
if rank == 1:
    sys.exit(7)
time.sleep(600)
"""
FAILS_WITH_MUCH = """
import os, signal, sys, time
def stop(*_):
    print("stopped at", time.time(), flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
ready = os.path.join(os.environ["RUNYARD_HOME"], os.environ["AZUREML_RUN_ID"] + ".ready")
if os.environ["RANK"] == "0":
    open(ready, "w").close()
    time.sleep(600)
while not os.path.exists(ready):
    time.sleep(0.01)
os.remove(ready)
with open("outputs/weights", "wb") as file:
    for _ in range(200):
        file.write(os.urandom(1 << 20))
    print("failed at", time.time(), flush=True)
    os._exit(7)
"""
WRITES_A_PART = """
import os, sys
with open(os.path.join(sys.argv[1], "part-" + os.environ["RANK"]), "w") as file:
    file.write("x")
"""
GOES_ON = """
import os, time
rank = os.environ["RANK"]
kept = os.path.join("outputs", "epoch-" + rank)
if os.path.exists(kept):
    print(f"goes on from epoch {open(kept).read()}", flush=True)
else:
    with open(kept, "w") as file:
        file.write("3")
    print("wrote epoch 3", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def gang(submitter: Submitter) -> Submitter:
    submitter.make_cluster("gang", max_nodes=3)
    return submitter


def submit(gang: Submitter, script: str, nodes: int = 3, **definition: object) -> str:
    torch = {"processCount": nodes, "communicationBackend": "gloo"}
    return gang.submit(script, target="gang", nodeCount=nodes, communicator="Gloo", pyTorch=torch, **definition)


def test_three_nodes_start_together_talk_and_complete(gang: Submitter):
    run = gang.ended(submit(gang, TALKS))
    assert run["status"] == "Completed", run["error"]
    assert run["nodes"] == ["gang-0", "gang-1", "gang-2"]
    assert "heard 1,2" in log_of(gang, run["id"], 0)
    assert {node["state"] for node in gang.nodes("gang")} == {"idle"}


def test_metrics_of_all_ranks_are_merged_and_told_apart(gang: Submitter):
    run = gang.ended(submit(gang, TALKS))
    assert sorted(metric(gang, run["id"], "")) == [0, 1, 2]
    assert metric(gang, run["id"], "?rank=2") == [2]


def test_a_failed_rank_fails_the_run_and_is_named(gang: Submitter):
    run = gang.ended(submit(gang, ONE_FAILS))
    assert run["status"] == "Failed"
    error = run["error"]["error"]
    assert "rank 1 on node gang-1" in error["message"]
    assert error["messageParameters"]["exit_code"] == "7"
    assert "here is 1" in error["details"][0]["message"]


def test_a_failed_rank_ends_the_others_at_once_however_much_its_node_has_to_deliver(gang: Submitter):
    run = gang.ended(submit(gang, FAILS_WITH_MUCH, nodes=2))
    assert "rank 1 on node gang-1" in run["error"]["error"]["message"]
    failed, stopped = (float(log_of(gang, run["id"], rank).split("at ")[1]) for rank in (1, 0))
    assert stopped - failed < 3
    [kept] = gang.client.get(f"/runs/{run['id']}/files?prefix=outputs/")["files"]
    assert kept["size"] == 200 << 20


def test_what_nodes_write_to_an_output_together_is_one_version_of_all_files(gang: Submitter):
    location = {"dataPath": {"datastoreName": "workspaceblobstore", "relativePath": "parts/{run-id}"}}
    options = {"registrationOptions": {"name": "parts"}}
    output = {"outputLocation": location, "mechanism": "Upload", "additionalOptions": options}
    run_id = submit(gang, WRITES_A_PART, nodes=2, arguments=["DatasetOutputConfig:out"], outputData={"out": output})
    run = gang.ended(run_id)
    assert (run["status"], run["warnings"]) == ("Completed", []), run["error"]
    [written] = run["outputs"]
    assert (written["name"], written["version"]) == ("parts", 1)
    made = gang.client.get(f"{gang.client.here}/assets/datasets/by-id/{written['dataset_id']}")
    assert made["body"]["pin"]["files"] == 2


def test_a_gang_is_canceled_on_every_node(gang: Submitter):
    run_id = submit(gang, ONE_FAILS.replace("sys.exit(7)", "pass"))
    gang.wait_for_output(run_id, "here is 0")
    gang.cancel(run_id)
    assert gang.ended(run_id)["status"] == "Canceled"
    assert {node["run_id"] for node in gang.nodes("gang")} == {None}


def kill_supervisor(service: dict[str, Any], part: str) -> None:
    told = Path(service["home"], "attempts", part, "supervisor.json").read_text()
    os.kill(int(json.loads(told)["pid"]), signal.SIGKILL)


def test_a_killed_supervisor_fails_the_run_with_the_node_named(gang: Submitter, service: dict[str, Any]):
    run_id = submit(gang, GOES_ON, nodes=2)
    gang.wait_for_output(run_id, "wrote epoch 3", ranks=2)
    kill_supervisor(service, f"{run_id}.1-1")
    run = gang.ended(run_id)
    assert run["status"] == "Failed"
    error = run["error"]["error"]
    assert "gang-1" in error["message"]
    assert error["messageParameters"]["rank"] == "1"
    [last] = error["details"]
    assert last["message"] == log_of(gang, run_id, 1).rstrip()


def test_a_run_that_lost_a_supervisor_goes_on_from_its_outputs(gang: Submitter, service: dict[str, Any]):
    run_id = submit(gang, GOES_ON, nodes=2, variables={"RUNYARD_MAX_ATTEMPTS": "2"})
    gang.wait_for_output(run_id, "wrote epoch 3", ranks=2)
    kill_supervisor(service, f"{run_id}.1-1")
    run = gang.ended(run_id)
    assert run["status"] == "Completed", run["error"]
    log = log_of(gang, run_id, 0)
    assert [line for line in log.splitlines() if "epoch" in line] == ["wrote epoch 3", "goes on from epoch 3"]
    assert "attempt 2 of 2" in run["warnings"][0]
    events = gang.client.get(f"/runs/{run_id}/events")["events"]
    assert "restart" in {event["kind"] for event in events}


def test_a_gang_that_can_never_fit_is_refused_with_the_numbers(gang: Submitter):
    definition = {"target": "gang", "command": "true", "nodeCount": 4, "communicator": "Mpi"}
    submission = {"run_id": f"{gang.client.workspace}-large", "definition": definition}
    refused = gang.client.refusal("POST", f"{gang.client.here}/experiments/moves/runs", submission)
    assert refused["code"] == "invalid_argument"
    assert "at most 3 on 'gang', got 4" in refused["problem"]


def log_of(gang: Submitter, run_id: str, rank: int) -> str:
    return gang.client.read(f"/runs/{run_id}/files/azureml-logs/70_driver_log_{rank}.txt").decode()


def metric(gang: Submitter, run_id: str, query: str) -> list[int]:
    head, _, payload = gang.client.read(f"/runs/{run_id}/metrics{query}").partition(b"\n")
    [one] = json.loads(head)["metrics"]
    assert (one["name"], one["type"]) == ("rank", "i")
    return [int.from_bytes(payload[place : place + 8], "little") for place in range(0, len(payload), 8)]
