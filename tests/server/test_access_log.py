import json
import time
from pathlib import Path

from runyard.process_logs.reader import ProcessLogTail, merge_tails
from tests.wire_client import PREFIX

SECRET = "s3cret-that-nobody-logs"


def lines_of(home, *names):
    return list(merge_tails([ProcessLogTail(Path(home), name) for name in names]))


def answered(service, request_id):
    """The line of that request, once it is written."""
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        found = [line for line in lines_of(service["home"], "access") if line["request"] == request_id]
        if found:
            return found[0]
    raise AssertionError(f"no line of {request_id}")


def headers(request_id, **more):
    return {"X-Request-Id": request_id, **more}


def test_an_answered_request_has_a_line(service, client):
    answer = client.ask("GET", f"{PREFIX}/workspaces/{client.workspace}", **headers("seen.1"))
    assert answer.headers["x-request-id"] == "seen.1"
    line = answered(service, "seen.1")
    assert line.pop("time").endswith("Z")
    assert line.pop("milliseconds") > 0
    assert line == {
        "level": "info",
        "component": "access",
        "method": "GET",
        "route": f"{PREFIX}/workspaces/{{workspace}}",
        "status": 200,
        "caller": "owner",
        "request": "seen.1",
    }


def test_the_line_names_the_run_of_its_route(service, client):
    client.ask("GET", f"{PREFIX}/runs/no_such_run", **headers("seen.2"))
    line = answered(service, "seen.2")
    assert (line["run"], line["status"]) == ("no_such_run", 404)


def test_every_answer_has_an_id_of_its_own(client):
    first, second = (client.ask("GET", f"{PREFIX}/health").headers["x-request-id"] for _ in range(2))
    assert first != second


def test_an_id_that_could_forge_a_line_is_replaced(client):
    for given in ('a"b', "a b", "x" * 65):
        assert client.ask("GET", f"{PREFIX}/health", **headers(given)).headers["x-request-id"] != given


def test_no_log_holds_what_a_request_could_keep_secret(service, client):
    stranger = client.with_token(SECRET)
    stranger.ask("GET", f"{PREFIX}/health?token={SECRET}", **headers("seen.3", Cookie=SECRET))
    client.ask("GET", f"/runs/some_run?key={SECRET}", **headers("seen.4"))
    client.ask("GET", f"/{SECRET}/nowhere", **headers("seen.5"))
    client.ask("POST", f"{PREFIX}/gc", {"older_than_seconds": SECRET}, **headers("seen.6"))
    lines = [answered(service, f"seen.{number}") for number in (3, 4, 5, 6)]
    assert [(line["status"], line["caller"]) for line in lines] == [(401, "-"), (401, "-"), (404, "-"), (400, "owner")]
    assert lines[2]["route"] == "-"
    written = [file.read_text() for file in (Path(service["home"]) / "process-logs").iterdir() if file.is_file()]
    written.append((Path(service["home"]) / "service.log").read_text())
    assert not [text for text in written if SECRET in text or service["token"] in text]


def test_a_request_that_fails_can_be_found_in_both_logs(service, client):
    """Its id is in the answer, in the access log and beside the traceback."""
    blob = Path(service["home"]) / "blobs"
    blob.rename(blob.with_name("blobs-away"))
    blob.write_text("not a folder")
    try:
        answer = client.ask("GET", f"{PREFIX}/du", **headers("seen.7"))
        sent = client.ask("PUT", f"{PREFIX}/blobs/{'0' * 64}", b"x", **headers("seen.8"))
    finally:
        blob.unlink()
        blob.with_name("blobs-away").rename(blob)
    failed = [one for one in (answer, sent) if one.status == 500]
    assert failed, (answer, sent)
    request_id = failed[0].headers["x-request-id"]
    assert answered(service, request_id)["level"] == "error"
    (line,) = [line for line in lines_of(service["home"], "service") if line.get("request") == request_id]
    assert "Traceback" in line["error"]
    assert json.loads(failed[0].body)["code"] == "internal"
