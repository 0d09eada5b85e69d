"""Traces of runs, sent by a real service to a real receiver."""

import hashlib
import os
import sys
from itertools import pairwise

from runyard.core.records.runs import RunStatus
from runyard.process_logs.reader import ProcessLogTail
from runyard.server.lifecycle import start_service
from runyard.server.metrics.traces import TraceExport, has_endpoint
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import a_run
from tests.faults.yard import eventually
from tests.server.otlp_receiver import attributes_of, receiving
from tests.wire_client import WireClient

SECONDS = 60
PHASES = ["NotStarted", "Preparing", "Queued", "Starting", "Running", "Finalizing"]
ERROR = 2


def started(home):
    facts = start_service(home, keep=True)
    client = WireClient(facts["url"], facts["token"], workspace="traced")
    client.put(client.here, {"exist_ok": True})
    return client


def submit(client, run_id, script, *, wait=True, **changes):
    """How it ended, or None where that is not waited for."""
    variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    definition = {
        "script": "train.py",
        "target": "local",
        "environment": {"python": {"userManagedDependencies": True, "interpreterPath": sys.executable}},
        "runyard": {"submitter": {"python": sys.executable, "variables": variables}},
        **changes,
    }
    snapshot = [["train.py", client.put_blob(script), len(script), 0o644]]
    client.post(
        f"{client.here}/experiments/traces/runs", {"run_id": run_id, "definition": definition, "snapshot": snapshot}
    )
    return list(client.lines(f"/runs/{run_id}/stream"))[-1]["end"]["status"] if wait else None


def test_an_ended_run_is_a_trace_of_its_phases(home, monkeypatch):
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=vision")
        client = started(home)
        assert submit(client, "traced-1", b"print('hello')\n") == "Completed"
        assert submit(client, "traced-2", b"raise ValueError('s3cret')\n") == "Failed"
        good, bad = receiver.trace_of("traced-1"), receiver.trace_of("traced-2")
        phases = client.get("/runs/traced-1")["phases"]
    assert (good.path, good.headers["x-team"]) == ("/v1/traces", "vision")
    assert good.resource["service.name"] == "runyard"
    (root,) = [span for span in good.spans if not span.parent_span_id]
    assert root.name == "run"
    assert root.trace_id.hex() == hashlib.sha256(b"traced-1").hexdigest()[:32]
    assert attributes_of(root) == {
        "runyard.run.id": "traced-1",
        "runyard.workspace": "traced",
        "runyard.experiment": "traces",
        "runyard.compute": "local",
        "runyard.run.status": "Completed",
    }
    children = sorted((span for span in good.spans if span.parent_span_id), key=lambda span: span.start_time_unix_nano)
    names = [span.name for span in children]
    assert names == [phase["name"] for phase in phases]
    assert [name for name in PHASES if name in names] == names
    assert "Running" in names
    assert {(span.trace_id, span.parent_span_id) for span in children} == {(root.trace_id, root.span_id)}
    assert children[0].start_time_unix_nano == root.start_time_unix_nano
    for before, after in pairwise(children):
        assert before.end_time_unix_nano == after.start_time_unix_nano
    assert children[-1].end_time_unix_nano <= root.end_time_unix_nano
    (failed,) = [span for span in bad.spans if not span.parent_span_id]
    assert (failed.status.code, root.status.code) == (ERROR, 0)
    assert b"s3cret" not in b"".join(span.SerializeToString() for span in bad.spans)


def test_an_endpoint_that_is_away_costs_no_run_anything_and_is_told(home, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    client = started(home)
    client.interactive_run("lost-1")
    client.patch("/runs/lost-1", {"status": "Completed"})
    assert client.get("/runs/lost-1")["status"] == "Completed"
    tail, told = ProcessLogTail(home, "service"), []

    def is_told():
        told.extend(line["message"] for line in tail.fresh() if line["level"] == "warning")
        return any("traces of runs are lost" in message for message in told)

    eventually(is_told, "a warning", SECONDS)


def test_missing_packages_are_told_once_with_what_to_install(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    monkeypatch.delitem(sys.modules, "runyard.server.metrics.spans", raising=False)
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    traces = TraceExport(stores.runs)
    for number in range(3):
        traces.note_end(stores.runs.create(a_run(f"r{number}", RunStatus.COMPLETED)))
    traces.close()
    stores.close()
    assert [record.message for record in caplog.records if "pip install 'runyard[otel]'" in record.message] == [
        record.message for record in caplog.records if record.name == "runyard.server.metrics.traces"
    ]
    assert len(caplog.records) == 1


def test_it_is_on_where_an_endpoint_is_set():
    assert has_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert has_endpoint({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"})
    assert not has_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"})
    assert not has_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": ""})
