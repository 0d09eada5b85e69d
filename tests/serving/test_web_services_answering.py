"""Deployed by HTTP and asked by HTTP: the service, the gateway and the workers are real."""

import http.client
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from runyard.core.worker_variables import WORKER_VARIABLES
from runyard.server.lifecycle import service_status, start_service, stop_service
from runyard.server.lifecycle.control import count_web_services
from tests.processes import pids, words_of
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

SCRIPT = """
import os
def init():
    print("init ran")
def run(data):
    return {"said": data, "files": sorted(os.listdir(os.environ["AZUREML_MODEL_DIR"]))}
"""
FAILING = """
def init():
    raise RuntimeError("the weights are not where they should be")
def run(data):
    return data
"""
WAIT_SECONDS = 120.0


def model(client, name="net", content=b"weights"):
    body = {"files": [["weights.bin", client.put_blob(content), len(content), 0o644]]}
    return client.post(f"{client.here}/assets/models", {"name": name, "body": body})


def inference(client, script=SCRIPT, **environment):
    content = script.encode()
    python = {"userManagedDependencies": True, "interpreterPath": sys.executable}
    return {
        "entry_script": "score.py",
        "files": [["score.py", client.put_blob(content), len(content), 0o644]],
        "environment": {"python": python, **environment},
    }


def deploy(client, name="my-service", *, script=SCRIPT, **more):
    body = {"name": name, "type": "ACI", "models": ["net:1"], "inference": inference(client, script), **more}
    return client.post(f"{client.here}/services", body)


def ended(client, name="my-service"):
    """The record once its deployment has ended."""
    record = client.get(f"{client.here}/services/{name}")
    ends_at = time.monotonic() + WAIT_SECONDS
    while record["wanted_revision"] not in (record["revision"], record["failed_revision"]):
        assert time.monotonic() < ends_at, record
        record = client.get(f"{client.here}/services/{name}/wait?version={record['version']}&timeout=10")
    return record


def ask(record, body=b'"hello"', **headers):
    address = urlsplit(record["scoring_uri"])
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    try:
        connection.request("POST", address.path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def deployed(client):
    model(client)
    deploy(client)
    yield client
    for service in client.get(f"{client.here}/services")["services"]:
        client.delete(f"{client.here}/services/{service['name']}")


def test_a_script_that_was_deployed_answers(deployed):
    record = ended(deployed)
    assert record["state"] == "Healthy", record["error"]
    status, body = ask(record)
    assert (status, json.loads(body)) == (200, {"said": '"hello"', "files": ["weights.bin"]})
    log = deployed.read(f"{deployed.here}/services/my-service/logs?lines=100").decode()
    assert "init ran" in log
    metrics = deployed.get(f"{deployed.here}/services/my-service/metrics")
    assert metrics["requests"] == {"200": 1}


def test_all_variables_of_a_worker_are_known_as_such(deployed):
    script = "import os\ndef init(): pass\ndef run(body): return sorted(os.environ)\n"
    deploy(deployed, "teller", script=script)
    names = json.loads(ask(ended(deployed, "teller"))[1])
    ours = {name for name in names if name.startswith(("RUNYARD_", "AZUREML_", "AML_"))}
    assert ours - {"RUNYARD_HOME"} == WORKER_VARIABLES


def test_a_failing_init_is_told_with_its_exception(client):
    model(client)
    deploy(client, script=FAILING)
    record = ended(client)
    assert record["state"] == "Failed"
    assert record["error"]["step"] == "init"
    assert "the weights are not where they should be" in record["error"]["problem"] + record["error"]["traceback"]
    client.delete(f"{client.here}/services/my-service")


def test_keys_and_tokens_open_what_they_are_for(deployed):
    here = f"{deployed.here}/services/my-service"
    deployed.patch(here, {"config": {"auth_enabled": True}})
    keys = deployed.get(f"{here}/keys")
    record = ended(deployed)
    assert [ask(record)[0], ask(record, **bearer("wrong"))[0]] == [401, 401]
    assert [ask(record, **bearer(keys[name]))[0] for name in ("primary", "secondary")] == [200, 200]
    renewed = deployed.post(f"{here}/keys", {"key": "Primary"})
    assert ask(record, **bearer(keys["primary"]))[0] == 401
    assert ask(record, **bearer(renewed["primary"]))[0] == 200


def test_a_token_opens_a_web_service_that_asks_for_one(client):
    model(client)
    deploy(client, type="AKS", config={"token_auth_enabled": True, "num_replicas": 1})
    token = client.post(f"{client.here}/services/my-service/token")
    record = ended(client)
    assert record["scoring_uri"].endswith("/api/v1/service/my-service/score")
    assert ask(record)[0] == 401
    assert ask(record, **bearer(token["access_token"]))[0] == 200
    assert ask(record, **bearer(token["access_token"] + "0"))[0] == 401
    client.delete(f"{client.here}/services/my-service")


def test_an_update_answers_with_the_new_model_and_a_failed_one_with_the_old(deployed):
    ended(deployed)
    model(deployed, content=b"better weights")
    here = f"{deployed.here}/services/my-service"
    changed = deployed.patch(
        here, {"models": ["net:2"], "inference": inference(deployed, SCRIPT.replace("said", "told"))}
    )
    assert changed["wanted_revision"] == 2
    record = ended(deployed)
    assert (record["models"], b"told" in ask(record)[1]) == (["net:2"], True)
    deployed.patch(here, {"inference": inference(deployed, FAILING)})
    record = ended(deployed)
    assert (record["failed_revision"], record["revision"], record["state"]) == (3, 2, "Healthy")
    assert "the weights" in str(record["error"])
    assert ask(record)[0] == 200


def test_a_deleted_one_no_longer_answers(deployed):
    record = ended(deployed)
    deployed.delete(f"{deployed.here}/services/my-service")
    with pytest.raises(ConnectionRefusedError):
        ask(record)
    assert deployed.refusal("GET", f"{deployed.here}/services/my-service")["status"] == 404


def test_a_deployment_is_told_of_within_milliseconds(deployed):
    """With a warm gateway; nothing of the environment or the worker is waited for."""
    ended(deployed)
    began = time.monotonic()
    deploy(deployed, "another-one")
    assert time.monotonic() - began < 0.5
    ended(deployed, "another-one")


def test_of_two_deployments_with_one_name_at_once_one_is_refused(client):
    model(client)
    body = {"name": "twice", "models": ["net:1"], "inference": inference(client)}

    def post(_):
        return client.ask("POST", f"/api/v1{client.here}/services", body)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(post, range(4)))
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    assert {answer.json.get("code") for answer in answers if answer.status == 409} == {"already_exists"}
    client.delete(f"{client.here}/services/twice")


@pytest.fixture
def own(home):
    facts = start_service(home, keep=True)
    client = WireClient(facts["url"], facts["token"], workspace="own")
    client.put(client.here, {"exist_ok": True})
    model(client)
    deploy(client)
    return client


def again(home, workspace="own"):
    facts = start_service(home, keep=True)
    return WireClient(facts["url"], facts["token"], workspace=workspace)


def gateway_of(home):
    """The gateway and its parent, which starts it again."""
    command = b"runyard.serving.gateway\0" + os.fsencode(home) + b"\0"
    return [pid for pid in pids() if command in next(words_of(pid), b"")]


def kill_gateway_and_parent(home):
    for pid in sorted(gateway_of(home)):  # the parent first, so that it starts no other
        os.kill(pid, signal.SIGKILL)
    _until(lambda: not gateway_of(home))


def kill_service(home):
    os.kill(service_status(home)["pid"], signal.SIGKILL)


@pytest.mark.parametrize("end", [stop_service, kill_service])
def test_endpoints_answer_while_the_service_is_down(own, home, end):
    record = ended(own)
    assert count_web_services(home) == 1
    end(home)
    assert ask(record)[0] == 200
    assert count_web_services(home) == 1
    assert again(home).get("/workspaces/own/services/my-service")["state"] == "Healthy"
    assert ask(record)[0] == 200


def test_a_service_that_is_stopped_does_not_wait_for_those_who_wait(own, home):
    version = ended(own)["version"]
    address = urlsplit(own.url)
    waiting = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    path = f"/api/v1{own.here}/services/my-service/wait?version={version}&timeout=15"
    waiting.request("GET", path, headers=bearer(own.token))
    began = time.monotonic()
    stop_service(home)
    assert time.monotonic() - began < 10
    assert json.loads(waiting.getresponse().read())["version"] == version
    waiting.close()


def test_a_killed_gateway_comes_back_with_its_services_on_the_same_ports(own, home):
    record = ended(own)
    facts = home / "gateway.json"
    pid = json.loads(facts.read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    _until(lambda: json.loads(facts.read_text())["pid"] != pid)
    _until(lambda: _answers(record))
    assert ended(own)["port"] == record["port"]


def test_a_start_of_the_service_brings_web_services_back(own, home):
    record = ended(own)
    stop_service(home)
    kill_gateway_and_parent(home)
    again(home)
    _until(lambda: _answers(record))


def test_a_deployment_that_a_killed_service_stored_and_told_nobody_is_made_at_its_next_start(own, home):
    record = ended(own)
    stop_service(home)
    kill_gateway_and_parent(home)
    folder = home / "services" / record["id"]
    folder.rename(home / "services-lost")
    stray = home / "services" / "stray"
    stray.mkdir()
    (stray / "spec.json").write_bytes((home / "services-lost" / "spec.json").read_bytes())
    client = again(home)
    _until(lambda: folder.is_dir())
    assert ask(ended(client))[0] == 200
    _until(lambda: not stray.exists())


def _answers(record):
    try:
        return ask(record)[0] == 200
    except OSError:
        return False


def _until(happened):
    ends_at = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < ends_at
        time.sleep(0.05)
