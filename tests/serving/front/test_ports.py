import contextlib
import json
import re
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.records.web_services import ServiceSpec, ServiceState
from runyard.serving.gateway.http.connection_set import ClientLimits
from runyard.serving.gateway.http.server import open_port
from tests.servers.certificates import Certificate, make_certificate
from tests.serving.front.raw_client import SECONDS, RawClient, ask, connected, request
from tests.serving.front.serving import Front, a_spec, serving


def with_tls(made: Certificate, key: Path | None = None) -> ServiceSpec:
    return a_spec(certificate=made.chain.read_text(), private_key=(key or made.key).read_text())


def over_tls(port: int, made: Certificate) -> RawClient:
    context = ssl.create_default_context(cafile=made.authority)
    plain = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    return RawClient(context.wrap_socket(plain, server_hostname="localhost"))


def opening(front: Front, port: int, **facts: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as refused:
        front.on_loop(lambda: open_port(a_spec(**facts), port, front.dispatcher, front.said.append))
    return refused.value


def test_a_taken_port_is_told_in_words(tmp_path: Path) -> None:
    with serving(tmp_path, workers=0) as front:
        error = opening(front, front.port)
    assert error.problem == f"Web service 'my-service' cannot listen on 127.0.0.1:{front.port}: that port is taken."
    assert "another port" in error.hint


@pytest.mark.parametrize("port", [65536, -1])
def test_a_port_that_there_is_not_is_told_in_words(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, workers=0) as front:
        assert "cannot listen" in opening(front, port).problem


def test_an_address_of_another_machine_is_told_in_words(tmp_path: Path) -> None:
    with serving(tmp_path, workers=0) as front:
        assert "no address of this machine" in opening(front, 0, host="192.0.2.1").problem


def test_nothing_is_heard_off_loopback(tmp_path: Path) -> None:
    with serving(tmp_path, workers=0) as front:
        listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    found = re.findall(rf"([0-9A-F]+):{front.port:04X} [0-9A-F]+:0000 0A", listening)
    assert found == ["0100007F"]


def test_a_port_speaks_tls_with_its_certificate(tmp_path: Path) -> None:
    made = make_certificate(tmp_path / "pem", "localhost")
    with serving(tmp_path, spec=with_tls(made)) as front:
        client = over_tls(front.port, made)
        assert [client.ask(request(body=body)).json for body in (b"1", b"2" * 300_000)] == ["1", "2" * 300_000]
        client.send(request(Content_Length=str(200 << 20)))
        assert client.read().status == 413
        client.close()


def test_clients_that_do_not_shake_hands_count_and_are_turned_away(tmp_path: Path) -> None:
    made = make_certificate(tmp_path / "pem", "localhost")
    limits = ClientLimits(connections=3, handshake_seconds=0.5)
    with serving(tmp_path, spec=with_tls(made), limits=limits) as front, contextlib.ExitStack() as opened:
        silent = [opened.enter_context(connected(front.port)) for _ in range(3)]
        front.wait_until(lambda: front.connections == 3)
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            over_tls(front.port, made)
        assert all(client.is_closed() for client in silent)
        front.wait_until(lambda: front.connections == 0)
        talking = [over_tls(front.port, made) for _ in range(3)]
        assert [client.ask(request(body=b"1")).status for client in talking] == [200, 200, 200]
        for client in talking:
            client.close()


def test_what_is_no_tls_is_let_go(tmp_path: Path) -> None:
    made = make_certificate(tmp_path / "pem", "localhost")
    with serving(tmp_path, spec=with_tls(made)) as front, connected(front.port) as client:
        client.send(request("GET", "/"))
        client.read_rest()
        front.wait_until(lambda: front.connections == 0)


def test_a_certificate_can_be_put_in_and_replaced_while_the_port_stays(tmp_path: Path) -> None:
    made = make_certificate(tmp_path / "pem", "localhost")
    with serving(tmp_path) as front, connected(front.port) as kept:
        port = front.port
        assert kept.ask(request(body=b"1")).status == 200
        front.reconfigure(with_tls(made))
        assert front.port == port
        client = over_tls(port, made)
        assert client.ask(request(body=b"2")).json == "2"
        client.close()
        assert kept.ask(request(body=b"3")).json == "3", "a connection that was open goes on"


def test_a_key_of_another_certificate_is_refused_and_the_old_port_goes_on(tmp_path: Path) -> None:
    made, other = make_certificate(tmp_path / "a", "localhost"), make_certificate(tmp_path / "b", "localhost")
    with serving(tmp_path) as front:
        with pytest.raises(InvalidArgument, match="cannot be used together"):
            front.reconfigure(with_tls(made, other.key))
        assert ask(front.port, body=b"1").status == 200


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, workers=0) as front:
        assert "certificate" in opening(front, 0, certificate="nonsense", private_key="nonsense").problem


def test_a_closing_port_answers_what_it_has_and_takes_nothing_new(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with serving(tmp_path) as front, connected(front.port) as busy, connected(front.port) as idle:
        assert idle.ask(request(body=b"1")).status == 200
        busy.send(request(body=json.dumps({"do": "wait", "until": str(flag)}).encode()))
        front.wait_until(lambda: front.dispatcher.in_work == 1)
        port = front.port
        closing = front.begin(lambda: front.endpoint.close(20.0))
        assert idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        flag.touch()
        assert busy.read().fields["connection"] == "close"
        assert busy.is_closed()
        closing.result(timeout=SECONDS)


def test_a_service_without_a_worker_says_why(tmp_path: Path) -> None:
    with serving(tmp_path, workers=0) as front:

        async def set_health(state: ServiceState, problem: str) -> None:
            front.endpoint.set_health(state, problem)

        soon = ask(front.port, "GET", "/")
        front.on_loop(lambda: set_health(ServiceState.TRANSITIONING, ""))
        starting = [ask(front.port, body=b"1"), ask(front.port, "GET", "/")]
        front.on_loop(lambda: set_health(ServiceState.UNHEALTHY, "Its worker was ended by SIGSEGV."))
        broken = ask(front.port, body=b"1")
        front.add_worker()
        healthy = [ask(front.port, body=b"1"), ask(front.port, "GET", "/")]
    assert (soon.status, soon.message) == (503, "Web service 'my-service' is starting its workers.")
    assert [reply.status for reply in starting] == [503, 503]
    assert all("being deployed" in reply.message for reply in starting)
    assert (broken.status, "SIGSEGV" in broken.message) == (503, True)
    assert broken.fields["retry-after"] == "1"
    assert [reply.status for reply in healthy] == [200, 200]


def test_changed_limits_count_from_the_next_request_on(tmp_path: Path) -> None:
    with serving(tmp_path) as front, connected(front.port) as client:
        assert client.ask(request(body=b"12345")).status == 200
        spec = a_spec()
        front.reconfigure(replace(spec, limits=replace(spec.limits, request_bytes=4)))
        assert client.ask(request(body=b"12345")).status == 413
