"""The gateway, killed or asked to leave: what it leaves behind, and how all of it comes back."""

import os
import signal
import socket
from pathlib import Path

import pytest

import runyard.serving.gateway.service_host as serving_host
from runyard.core.errors import EngineSilent, Json
from runyard.core.records.web_services import ObservedService, ServiceState
from runyard.node.home_socket import ask_socket
from runyard.serving.gateway.service_host import LocalServiceHost
from runyard.serving.workers.process_tree import resident_bytes
from tests.processes import stopped
from tests.serving.hosting import Hosting, ask, eventually, is_alive
from tests.serving.test_updates import answering, taking_a_while

pytestmark = pytest.mark.slow


def is_healthy_since(version: int, seen: ObservedService) -> bool:
    """Whether a gateway that came later says so: the file of a killed one goes on saying it."""
    return seen.state is ServiceState.HEALTHY and seen.version > version


STUBBORN = (
    "import signal, subprocess, sys\n"
    "def init():\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
    "    open('child', 'w').write(str(child.pid))\n"
    "def run(body):\n"
    "    while True: pass\n"
)


def test_a_killed_gateway_takes_its_workers_along_and_comes_back_with_all_on_the_same_ports(hosting: Hosting) -> None:
    specs = [hosting.spec(answering(word)) for word in ("one", "two")]
    before = [hosting.deploy(spec) for spec in specs]
    workers = [pid for spec in specs for pid in hosting.workers(spec)]
    os.kill(hosting.gateway(), signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, workers)), "the end of the workers")
    LocalServiceHost(hosting.home).revive()
    for spec, old, word in zip(specs, before, ("one", "two"), strict=True):
        seen = hosting.until(spec, lambda seen, since=old.version: is_healthy_since(since, seen))
        assert seen.port == old.port
        assert ask(seen.port) == (200, word)


def test_a_gateway_is_sent_away_once_where_the_code_was_replaced_below_its_service(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hosting.deploy(spec := hosting.spec(answering("here")))
    first = hosting.gateway()
    monkeypatch.setattr(serving_host, "gateway_version", lambda: "of a service that was started before the upgrade")
    LocalServiceHost(hosting.home).revive()
    successor = hosting.gateway()
    LocalServiceHost(hosting.home).observe(spec.id)
    seen = hosting.until(spec, lambda seen: is_healthy_since(before.version, seen))
    assert first != successor == hosting.gateway()
    assert ask(seen.port) == (200, "here")


def test_a_gateway_killed_during_a_deployment_goes_on_with_it(hosting: Hosting) -> None:
    wait = "while not os.path.exists('../go'): time.sleep(0.02)"
    slow = f"import os, time\ndef init():\n    {wait}\ndef run(body): return 'there'\n"
    hosting.host.apply(spec := hosting.spec(slow))
    hosting.until(spec, lambda seen: seen.step == "init")
    os.kill(hosting.gateway(), signal.SIGKILL)
    (hosting.home / "services" / spec.id / "r1" / "go").touch()
    hosting.host.revive()
    seen = hosting.until(spec, lambda seen: seen.revision == 1)
    assert ask(seen.port) == (200, "there")


def test_the_old_revision_comes_back_where_the_newest_has_failed(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec(answering("old")))
    bad = hosting.changed(spec, "def init():\n    raise ValueError('broken')\ndef run(body): pass\n")
    before = hosting.deploy(bad)
    os.kill(hosting.gateway(), signal.SIGKILL)
    hosting.host.revive()
    seen = hosting.until(spec, lambda seen: is_healthy_since(before.version, seen))
    assert (seen.revision, seen.failed_revision, seen.trouble) == (1, 2, before.trouble)
    assert ask(seen.port) == (200, "old")


def test_a_failed_deployment_is_not_tried_again_by_a_restart(hosting: Hosting) -> None:
    spec = hosting.spec("def init():\n    print('tried')\n    raise ValueError('broken')\ndef run(body): pass\n")
    before = hosting.deploy(spec)
    os.kill(hosting.gateway(), signal.SIGKILL)
    hosting.host.revive()
    other = hosting.spec()
    hosting.deploy(other)
    assert hosting.log(spec).splitlines().count("tried") == 1
    seen = hosting.host.observe(spec.id)
    assert seen is not None
    assert (seen.state, seen.trouble) == (ServiceState.FAILED, before.trouble)


def test_what_a_killed_gateway_left_running_is_ended_by_the_next(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec(STUBBORN))
    child = int((hosting.home / "services" / spec.id / "r1" / "azureml-app" / "child").read_text())
    os.kill(hosting.gateway(), signal.SIGKILL)
    assert is_alive(child), "a process that left its session does not hear of it"
    hosting.host.revive()
    hosting.until(spec, lambda seen: seen.state is ServiceState.HEALTHY)
    eventually(lambda: not is_alive(child), "the end of the child")


def test_a_gateway_that_is_asked_to_leave_answers_what_it_has_taken(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec(taking_a_while("done")))
    with socket.create_connection(("127.0.0.1", seen.port), timeout=30) as client:
        client.sendall(b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        begun = hosting.home / "services" / spec.id / "r1" / "azureml-app" / "begun"
        eventually(begun.exists, "the request")
        gateway = hosting.gateway()
        ask_socket(hosting.home, "gateway.sock", {"op": "exit"})
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert b'"done"' in answer
    eventually(lambda: not is_alive(gateway), "the end of the gateway")
    assert (hosting.home / "services" / spec.id / "spec.json").exists()


def taken(port: int) -> socket.socket | None:
    """None while somebody has it: a thread of a process that was killed may be the last to go."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def test_a_port_taken_meanwhile_is_told_and_taken_back_when_it_is_free(hosting: Hosting) -> None:
    seen = hosting.deploy(spec := hosting.spec(answering("back")))
    os.kill(hosting.gateway(), signal.SIGKILL)
    with eventually(lambda: taken(seen.port), "a free port"):
        hosting.host.revive()
        told = hosting.until(spec, lambda seen: seen.trouble is not None and seen.trouble.step == "port")
        assert told.state is ServiceState.UNHEALTHY
    hosting.until(spec, lambda seen: seen.state is ServiceState.HEALTHY)
    assert ask(seen.port) == (200, "back")


def test_a_service_is_removed_while_the_gateway_is_down(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec(STUBBORN))
    child = int((hosting.home / "services" / spec.id / "r1" / "azureml-app" / "child").read_text())
    os.kill(hosting.gateway(), signal.SIGKILL)
    hosting.host.remove(spec.id)
    assert not is_alive(child)
    assert hosting.host.service_ids() == []


def test_a_second_gateway_gives_way_to_the_first(hosting: Hosting) -> None:
    hosting.deploy(spec := hosting.spec())
    first = hosting.gateway()
    LocalServiceHost(hosting.home).revive()
    assert hosting.gateway() == first
    assert is_alive(first)
    assert hosting.workers(spec)


def test_a_torn_spec_keeps_no_other_service_from_coming_back(hosting: Hosting) -> None:
    torn, whole = hosting.spec(answering("torn")), hosting.spec(answering("whole"))
    port = [hosting.deploy(spec).port for spec in (torn, whole)][1]
    os.kill(hosting.gateway(), signal.SIGKILL)
    (hosting.home / "services" / torn.id / "spec.json").write_text('{"id"', encoding="utf-8")
    hosting.host.revive()
    hosting.until(whole, lambda seen: seen.state is ServiceState.HEALTHY)
    assert ask(port) == (200, "whole")
    assert torn.id in (hosting.home / "gateway.log").read_text(encoding="utf-8")


def test_the_gateway_is_small(hosting: Hosting) -> None:
    """Beyond the worker, an idle web service costs less than 80 MB."""
    hosting.deploy(hosting.spec())
    assert resident_bytes([hosting.gateway()]) < 80 << 20


def test_the_gateways_own_log_has_a_bound(hosting: Hosting) -> None:
    hosting.deploy(hosting.spec())
    log = hosting.home / "gateway.log"
    with log.open("ab") as written:
        written.write(b"a stranger's noise\n" * 1_000_000 + b"the last line\n")
    eventually(lambda: log.stat().st_size < 2 << 20, "a small log")
    assert log.read_bytes().startswith(b"a stranger's noise\n")
    assert b"the last line\n" in log.read_bytes()


def test_whoever_waits_for_news_does_not_hear_that_the_gateway_is_stopped(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = hosting.spec()
    before = hosting.deploy(spec)

    def ask_briefly(home: Path, name: str, request: Json, *, timeout_seconds: float) -> Json:
        return ask_socket(home, name, request, timeout_seconds=0.1)

    monkeypatch.setattr(serving_host, "ask_socket", ask_briefly)
    monkeypatch.setattr(serving_host, "_START_SECONDS", 0.5)
    with stopped(hosting.gateway()):
        seen = hosting.host.wait(spec.id, before.version, 0.1)
        assert seen is not None
        assert seen.state is ServiceState.HEALTHY
        with pytest.raises(EngineSilent):
            hosting.host.revive()
