"""Workers that die, hang or answer oddly, seen by a client."""

import contextlib
import json
from pathlib import Path

from runyard.core.records.web_services import Scale, ServiceState, ServingLimits
from tests.serving.front.raw_client import ask, connected, request
from tests.serving.front.serving import a_spec, serving

ODD_SCRIPT = """
from azureml.contrib.services.aml_request import rawhttp
from azureml.contrib.services.aml_response import AMLResponse

def init():
    pass

@rawhttp
def run(asked):
    wish = asked.args.get("wish", "")
    if wish == "length":
        return AMLResponse("four", 200, {"Content-Length": "400", "Connection": "close", "Content-Type": "text/odd"})
    if wish == "empty":
        return AMLResponse("", 204)
    if wish == "teapot":
        return AMLResponse("short and stout", 418)
    return asked.method + " " + asked.headers.get("X-Mine", "-") + " " + asked.get_data(as_text=True)
"""


def test_a_worker_that_dies_takes_its_request_with_it_and_no_other(tmp_path: Path) -> None:
    with serving(tmp_path) as front, connected(front.port) as dying, connected(front.port) as waiting:
        flag = tmp_path / "flag"
        dying.send(request(body=json.dumps({"do": "wait", "until": str(flag)}).encode()))
        front.wait_until(lambda: front.dispatcher.in_work == 1)
        waiting.send(request(body=b"waiting"))
        front.wait_until(lambda: front.dispatcher.depth == 1)
        front.workers[0].process.kill()
        reply = dying.read()
        assert reply.status == 502
        assert "It ended with -9." in reply.message
        front.add_worker()
        assert waiting.read().json == "waiting"


def test_the_log_has_the_id_of_each_request_that_failed(tmp_path: Path) -> None:
    with serving(tmp_path, workers=2) as front:
        for number, order in enumerate(({"do": "fail"}, {"do": "count"}, {"do": "die"})):
            ask(front.port, body=json.dumps(order).encode(), x_ms_request_id=f"mine-{number}")
        ask(front.port, path="/nowhere", x_ms_request_id="mine-3")
        failed, died = front.said
    assert failed == 'Request mine-0 was answered with 500: {"message": "ValueError: the script said no"}'
    assert died.startswith("Request mine-2 was answered with 502: The worker was lost")


def test_a_crash_in_the_script_is_answered_502(tmp_path: Path) -> None:
    with serving(tmp_path, workers=2) as front:
        reply = ask(front.port, body=b'{"do": "die"}')
        assert (reply.status, "It ended with -11." in reply.message) == (502, True)
        assert ask(front.port, body=b"next").json == "next"
        assert front.seen().count('{"do": "die"}') == 1


def test_a_script_that_hangs_is_answered_504_and_its_worker_ends(tmp_path: Path) -> None:
    with serving(tmp_path, spec=a_spec(limits=ServingLimits(scoring_seconds=0.2))) as front:
        reply = ask(front.port, body=json.dumps({"do": "wait", "until": str(tmp_path / "never")}).encode())
        assert reply.status == 504
        assert "scoring_timeout_ms" in reply.message
        front.workers[0].process.wait(timeout=20)
        front.wait_until(lambda: not front.dispatcher.is_served)
        front.add_worker()
        assert ask(front.port, body=b"1").status == 200


def test_a_worker_with_threads_works_on_several_requests(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with serving(tmp_path, spec=a_spec(scale=Scale(requests_at_once=2))) as front, connected(front.port) as slow:
        slow.send(request(body=json.dumps({"do": "wait", "until": str(flag)}).encode()))
        front.wait_until(lambda: front.dispatcher.in_work == 1)
        assert ask(front.port, body=b"meanwhile").json == "meanwhile"
        flag.touch()
        assert slow.read().status == 200


def test_other_workers_take_over_without_a_failed_request(tmp_path: Path) -> None:
    with serving(tmp_path) as front, connected(front.port) as client:
        for _ in range(3):
            old = front.workers[-1].link
            assert client.ask(request(body=b"1")).status == 200
            client.send(request(body=b"2") * 20)
            front.add_worker()

            async def retire(link: object = old) -> None:
                await front.dispatcher.retire(link)  # type: ignore[arg-type]
                link.close()  # type: ignore[attr-defined]

            front.on_loop(retire)
            assert [client.read().status for _ in range(20)] == [200] * 20


def test_a_deleted_service_refuses_those_who_wait(tmp_path: Path) -> None:
    with serving(tmp_path, workers=0) as front, connected(front.port) as waiting:
        waiting.send(request(body=b"1"))
        front.wait_until(lambda: front.dispatcher.depth == 1)

        async def close() -> None:
            front.endpoint.set_health(ServiceState.DELETING)
            front.dispatcher.close("Web service 'my-service' is being deleted.")

        front.on_loop(close)
        reply = waiting.read()
        assert reply.status == 503
        assert "being deleted" in reply.message


def test_raw_requests_have_their_heads_and_choose_their_answers(tmp_path: Path) -> None:
    with serving(tmp_path, script=ODD_SCRIPT) as front:
        assert ask(front.port, body=b"text", X_Mine="field").json == "POST field text"
        assert ask(front.port, "GET", X_Mine="\xe9").json == "GET \xe9 "
        assert ask(front.port, "OPTIONS").json == "OPTIONS - "
        teapot = ask(front.port, "GET", "/score?wish=teapot")
        assert (teapot.status, teapot.body) == (418, b"short and stout")
        assert teapot.fields["x-ms-run-function-failed"] == "False"


def test_a_script_cannot_bring_the_connection_out_of_step(tmp_path: Path) -> None:
    with serving(tmp_path, script=ODD_SCRIPT) as front, connected(front.port) as client:
        wrong = client.ask(request("GET", "/score?wish=length"))
        assert (wrong.body, wrong.fields["content-type"]) == (b"four", "text/odd")
        empty = client.ask(request("GET", "/score?wish=empty"))
        assert (empty.status, empty.body, "content-length" in empty.fields) == (204, b"", False)
        assert client.ask(request(body=b"still in step")).status == 200


def test_hundreds_of_requests_at_once_are_all_answered(tmp_path: Path) -> None:
    with serving(tmp_path, workers=2) as front, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(front.port)) for _ in range(100)]
        for number, client in enumerate(opened):
            client.send(b"".join(request(body=f"{number}-{turn}".encode()) for turn in range(5)))
        for number, client in enumerate(opened):
            assert [client.read().json for _ in range(5)] == [f"{number}-{turn}" for turn in range(5)]
