import json
from typing import Any

import pytest

from tests.serving.scoring_models import SCORE, inference, registered, submitter
from tests.wire_client import WireClient

FAILING_INIT = SCORE.replace("global weights", 'raise RuntimeError("no such weights")')
PICKY = SCORE.replace("return {", 'assert "bad" not in body, "a bad row"\n    return {')


def measured(client: WireClient, **changes: Any) -> dict[str, Any]:
    """The record of a profile at its end."""
    rows = [json.dumps({"row": number}) for number in range(3)]
    body = {"name": "measured", "models": [registered(client)], "rows": rows, "submitter": submitter(), **changes}
    if "inference" not in changes:
        body["inference"] = inference(client)
    record = client.post(f"{client.here}/profiles", body)
    for _ in range(6):
        if record["state"] == "Running":
            record = client.get(f"{client.here}/profiles/measured/wait?version={record['version']}&timeout=15")
    return record


def test_a_profile_measures_latency_memory_and_processor_time(client: WireClient) -> None:
    record = measured(client, cpu=1, memory_in_gb=0.5)
    assert record["state"] == "Succeeded", (record["error"], record["log"])
    results = record["results"]
    latency = results["latency_ms"]
    ranked = [latency[name] for name in ("p50", "p90", "p95", "p99", "p99_9", "max")]
    assert ranked == sorted(ranked)
    assert ranked[0] > 0
    assert results["requests"] == results["succeeded"] >= 200
    assert results["success_rate"] == 100
    assert results["queries_per_second"] > 1
    assert results["peak_memory_bytes"] > 1 << 20
    assert results["recommended_memory_in_gb"] >= 0.1
    assert record["cpu"] == 1
    assert client.get(f"{client.here}/profiles/measured")["results"] == results


def test_the_web_service_of_a_profile_is_nobodys_and_goes_with_it(client: WireClient) -> None:
    model = registered(client)
    assert measured(client, models=[model])["state"] == "Succeeded"
    assert client.get(f"{client.here}/services")["services"] == []
    client.delete(f"{client.here}/assets/models/{model.partition(':')[0]}")


def test_rows_that_the_script_refuses_are_counted_with_the_first_cause(client: WireClient) -> None:
    rows = ['{"row": 1}', '{"bad": 1}']
    results = measured(client, rows=rows, inference=inference(client, PICKY))["results"]
    assert results["failed"] == results["succeeded"]
    assert results["success_rate"] == 50
    assert "a bad row" in results["first_failure"]


def test_a_model_that_does_not_load_fails_its_profile_with_the_traceback(client: WireClient) -> None:
    record = measured(client, inference=inference(client, FAILING_INIT))
    assert record["state"] == "Failed"
    assert "no such weights" in record["error"]["problem"]
    assert "RuntimeError" in record["error"]["traceback"]


def test_each_line_of_a_dataset_is_a_request(client: WireClient) -> None:
    client.put(f"{client.here}/datastores/workspaceblobstore/files/rows.txt", b'{"row": 1}\n\n{"row": 2}\n')
    source = {"datastore": "workspaceblobstore", "path": "rows.txt"}
    dataset = client.post(f"{client.here}/datasets", {"name": "rows", "body": {"type": "file", "sources": [source]}})
    record = measured(client, rows=None, dataset_id=dataset["id"])
    assert record["state"] == "Succeeded", (record["error"], record["log"])
    assert record["dataset_id"] == dataset["id"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"rows": None}, 400),
        ({"rows": []}, 400),
        ({"rows": ["  "]}, 400),
        ({"rows": [1]}, 400),
        ({"rows": None, "dataset_id": "nothing"}, 404),
        ({"cpu": -1}, 400),
        ({"memory_in_gb": "much"}, 400),
        ({"name": "../up"}, 400),
        ({"submitter": 1e308}, 400),
        ({"models": ["nothing:1"]}, 404),
    ],
)
def test_a_profile_that_cannot_be_is_refused(client: WireClient, changes: dict[str, Any], status: int) -> None:
    body = {"name": "measured", "models": [registered(client)], "inference": inference(client), "rows": ["{}"]}
    refused = client.refusal("POST", f"{client.here}/profiles", {**body, "submitter": submitter(), **changes})
    assert refused["status"] == status, refused
