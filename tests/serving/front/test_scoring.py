"""What a client of a healthy web service sees."""

import gzip
import json
import re
from collections.abc import Iterator

import pytest

from tests.serving.front.raw_client import ask, connected, request
from tests.serving.front.serving import Front, a_spec, serving


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with serving(tmp_path_factory.mktemp("plain")) as front:
        yield front


def test_a_post_is_scored(front: Front) -> None:
    reply = ask(front.port, body=b"hello")
    assert (reply.status, reply.json) == (200, "hello")
    assert reply.fields["content-type"] == "application/json"
    assert reply.fields["x-ms-run-function-failed"] == "False"
    assert float(reply.fields["x-ms-run-fn-exec-ms"]) > 0
    assert reply.fields["server"] == "runyard"
    assert reply.fields["date"].endswith("GMT")


def test_the_path_of_a_kubernetes_service_is_scored_too(front: Front) -> None:
    assert ask(front.port, path="/api/v1/service/my-service/score", body=b"a").json == "a"


def test_an_exception_of_the_script_is_told_and_marked(front: Front) -> None:
    reply = ask(front.port, body=b'{"do": "fail"}')
    assert reply.status == 500
    assert "the script said no" in reply.message
    assert reply.fields["x-ms-run-function-failed"] == "True"


def test_a_query_arrives_as_json(front: Front) -> None:
    assert json.loads(ask(front.port, "GET", "/score?a=1&b=x%20y").json) == {"a": "1", "b": "x y"}


def test_an_empty_body_is_scored(front: Front) -> None:
    assert ask(front.port, body=b"").json == ""


def test_a_connection_is_kept(front: Front) -> None:
    with connected(front.port) as client:
        assert [client.ask(request(body=body)).json for body in (b"1", b"2", b"3")] == ["1", "2", "3"]


def test_a_connection_is_closed_when_the_client_wishes_it(front: Front) -> None:
    with connected(front.port) as client:
        reply = client.ask(request(body=b"1", Connection="close"))
        assert (reply.json, reply.fields["connection"]) == ("1", "close")
        assert client.is_closed()


def test_an_old_client_is_answered_and_left(front: Front) -> None:
    with connected(front.port) as client:
        assert client.ask(b"POST /score HTTP/1.0\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1").json == "1"
        assert client.is_closed()


def test_an_old_client_may_keep_its_connection(front: Front) -> None:
    kept = b"POST /score HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n1"
    with connected(front.port) as client:
        assert [client.ask(kept).fields["connection"] for _ in range(2)] == ["keep-alive"] * 2


def test_pipelined_requests_are_answered_in_order(front: Front) -> None:
    asked = [request(body=b'{"do": "fail"}'), request("GET", "/"), request("GET", "/nothing"), request(body=b"4")]
    with connected(front.port) as client:
        client.send(b"".join(asked))
        assert [client.read().status for _ in asked] == [500, 200, 404, 200]


def test_a_thousand_pipelined_requests_are_all_answered(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request("GET", "/") * 500 + request(body=b"x") * 500)
        assert [client.read().status for _ in range(1000)] == [200] * 1000


def test_a_request_may_come_byte_by_byte(front: Front) -> None:
    with connected(front.port) as client:
        for byte in request(body=b"slowly"):
            client.send(bytes([byte]))
        assert client.read().json == "slowly"


def test_a_chunked_body_is_put_together(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(Transfer_Encoding="chunked") + b"3\r\nabc\r\n")
        client.send(b"2;extension=1\r\nde\r\n0\r\nTrailer: x\r\n\r\n")
        assert client.read().json == "abcde"
        assert client.ask(request(body=b"next")).json == "next"


def test_a_large_body_arrives_whole(front: Front) -> None:
    body = json.dumps({"do": "count", "pad": "x" * (20 << 20)}).encode()
    assert ask(front.port, body=body).json == len(body)
    assert front.dispatcher.request_budget.held == 0


def test_a_large_answer_arrives_whole(front: Front) -> None:
    body = b"y" * (5 << 20)
    assert ask(front.port, body=body).json == body.decode()


def test_who_asks_before_sending_is_invited(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(Expect="100-continue", Content_Length="5"))
        assert client.read().status == 100
        assert client.ask(b"later").json == "later"


def test_the_invitation_waits_for_the_answer_before_it(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(body=b"first") + request(Expect="100-continue", Content_Length="6"))
        assert [client.read().json, client.read().status] == ["first", 100]
        assert client.ask(b"second").json == "second"


def test_a_wish_for_another_protocol_is_passed_over(front: Front) -> None:
    wish = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2_Settings": "AAMAAABkAAQCAAAAAAIAAAAA"}
    with connected(front.port) as client:
        assert client.ask(request(body=b"body and all", **wish)).json == "body and all"
        assert client.ask(request(body=b"again")).json == "again"


def test_a_second_wish_for_another_protocol_is_the_last(front: Front) -> None:
    """Each is read twice: a client that sends thousands of them at once must not keep the others waiting."""
    wish = request("GET", "/", Connection="Upgrade", Upgrade="h2c")
    with connected(front.port) as client:
        client.send(wish * 2000)
        assert [client.read().fields.get("connection") for _ in range(2)] == [None, "close"]
        assert client.is_closed()


def test_ids_of_requests_differ_and_a_clients_own_are_kept(front: Front) -> None:
    made = [ask(front.port, body=b"1").fields["x-ms-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one) for one in made)
    own = ask(front.port, body=b"1", x_ms_request_id="mine", x_ms_client_request_id="theirs")
    assert (own.fields["x-ms-request-id"], own.fields["x-ms-client-request-id"]) == ("mine", "theirs")
    long = ask(front.port, body=b"1", x_ms_request_id="m" * 200, x_ms_client_request_id="t" * 200)
    assert len(long.fields["x-ms-request-id"]) == 36
    assert "x-ms-client-request-id" not in long.fields


def test_health(front: Front) -> None:
    reply = ask(front.port, "GET", "/")
    assert (reply.status, reply.body) == (200, b"Healthy")


def test_the_head_of_an_answer_may_be_had_alone(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request("HEAD", "/") + request("GET", "/"))
        assert client.read(of_head=True).fields["content-length"] == "7"
        assert client.read().body == b"Healthy"


def test_options_says_what_there_is(front: Front) -> None:
    reply = ask(front.port, "OPTIONS")
    assert (reply.status, reply.fields["allow"]) == (200, "GET, OPTIONS, POST")
    assert not any(name.startswith("access-control") for name in reply.fields)
    assert ask(front.port, "OPTIONS", "*").status == 200


def test_swagger_describes_the_scoring_route(front: Front) -> None:
    second, third = (ask(front.port, "GET", path).json for path in ("/swagger.json", "/swagger.json?version=3"))
    assert (second["swagger"], third["openapi"][:2]) == ("2.0", "3.")
    assert "post" in second["paths"]["/score"]
    assert "post" in third["paths"]["/score"]
    assert ask(front.port, "GET", "/api/v1/service/my-service/swagger.json").json == second


def test_an_absolute_url_is_understood(front: Front) -> None:
    assert ask(front.port, path="http://localhost/score", body=b"1").json == "1"


def test_a_percent_sign_may_stand_for_a_letter(front: Front) -> None:
    assert ask(front.port, path="/%73core", body=b"1").json == "1"


def test_a_plain_script_gets_any_content_type(front: Front) -> None:
    assert ask(front.port, body=b"a=1", Content_Type="application/x-www-form-urlencoded").json == "a=1"


@pytest.mark.parametrize("fields", [{"Content_Encoding": "gzip"}, {"Transfer_Encoding": "gzip, chunked"}])
def test_a_packed_body_is_refused(front: Front, fields: dict[str, str]) -> None:
    length = {"Content_Length": ""} if "Transfer_Encoding" in fields else {}
    reply = ask(front.port, body=gzip.compress(b"1"), **fields, **length)
    assert (reply.status, "packed body" in reply.message) == (415, True)


@pytest.mark.parametrize("body", [b'{"x": NaN}', b'{"x": 1e999}', b"[" * 5000, "\u0000\u7fff".encode()])
def test_odd_bodies_reach_a_plain_script_as_they_are(front: Front, body: bytes) -> None:
    assert ask(front.port, body=body).json == body.decode()


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"{'a': 1}"])
def test_a_body_that_the_script_cannot_read_is_its_own_error(front: Front, body: bytes) -> None:
    reply = ask(front.port, body=body)
    assert reply.status in (400, 500)
    assert reply.message


def test_requests_are_counted_and_timed(front: Front) -> None:
    before = front.metrics()["requests"]
    ask(front.port, body=b"1")
    ask(front.port, path="/nothing", body=b"1")
    after = front.metrics()
    grown = {status: after["requests"][status] - before.get(status, 0) for status in after["requests"]}
    assert (grown["200"], grown["404"]) == (1, 1)
    latency = after["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p95"] <= latency["p99"] <= latency["max"]
    assert (after["queued"], after["in_work"]) == (0, 0)


def test_pages_of_named_origins_may_read_answers(front: Front) -> None:
    asked = {"Origin": "https://page.example", "Access_Control_Request_Method": "POST"}
    front.reconfigure(
        a_spec(variables={"AML_CORS_ORIGINS": "https://page.example, https://b.example"}, name="my-service")
    )
    try:
        preflight, scored = ask(front.port, "OPTIONS", **asked), ask(front.port, body=b"1", Origin="https://b.example")
        foreign = ask(front.port, body=b"1", Origin="https://c.example")
    finally:
        front.reconfigure(a_spec())
    assert preflight.fields["access-control-allow-origin"] == "https://page.example"
    assert "Authorization" in preflight.fields["access-control-allow-headers"]
    assert scored.fields["access-control-allow-origin"] == "https://b.example"
    assert "access-control-allow-origin" not in foreign.fields
