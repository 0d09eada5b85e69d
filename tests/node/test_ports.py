import os
import socket

import pytest

from runyard.core.errors import EngineError
from runyard.core.records.launch_plan import PortRequest
from runyard.node.network import ports
from runyard.node.network.ports import PortLocks, is_free
from tests.node.conftest import a_rank, rank_log

BINDS = """
import os, socket, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
server = socket.socket()
server.bind(('0.0.0.0', int(os.environ['PORT'])))
"""


def a_free_port() -> int:
    """Outside of what the kernel gives away, so that nobody takes it meanwhile."""
    return next(port for port in range(21000, 22000) if is_free(port))


def test_the_preferred_port_is_chosen_when_it_is_free(tmp_path):
    free = a_free_port()
    assert PortLocks(tmp_path).choose([PortRequest("master", free)]) == {"master": free}


def test_a_port_that_is_held_is_given_to_nobody_else_until_it_is_let_go(tmp_path):
    free = a_free_port()
    first, second = PortLocks(tmp_path), PortLocks(tmp_path)
    held = first.choose([PortRequest("a", free), PortRequest("b", free)])
    assert held["a"] != held["b"]
    assert second.choose([PortRequest("a", free)])["a"] not in held.values()
    first.close()
    assert PortLocks(tmp_path).choose([PortRequest("a", free)]) == {"a": free}


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.5"), (socket.AF_INET6, "::1")])
def test_a_port_taken_on_any_address_is_not_free(family, address):
    free = a_free_port()
    with socket.socket(family) as server:
        server.bind((address, free))
        server.listen()
        assert not is_free(free)
    assert is_free(free)


def test_ports_are_not_those_of_outgoing_connections(tmp_path):
    low, high = ports._ephemeral_range()
    chosen = PortLocks(tmp_path).choose([PortRequest(str(number)) for number in range(20)])
    assert len(set(chosen.values())) == 20
    assert not any(low <= port <= high for port in chosen.values())
    preferred = PortLocks(tmp_path).choose([PortRequest("within", low + 5)])
    assert not low <= preferred["within"] <= high


def test_a_node_without_a_free_port_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ports, "is_free", lambda port: False)
    with pytest.raises(EngineError, match="no free port for 'master'"):
        PortLocks(tmp_path).choose([PortRequest("master", 6105)])


def test_a_port_taken_before_the_run_bound_it_is_named_with_who_has_it(submit_to_nodes, service, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNYARD_NETWORK", "host")
    wishes = ((PortRequest("master", a_free_port()),), ())
    go = str(tmp_path / "go")
    submit_to_nodes(BINDS, [a_rank(0, go, PORT="<port:0:master>")], [a_rank(1, "x")], ports=wishes)
    service.wait_for(lambda: service.report("running", node=0))
    port = service.report("ready", node=0)["ports"]["master"]
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", port))
        thief.listen()
        (tmp_path / "go").touch()
        first, _ = service.all_ended(2)
    assert first["error"]["code"] == "PortTaken"
    assert f"Port {port} was free when it was chosen" in first["error"]["message"]
    assert f"(process {os.getpid()})" in first["error"]["message"]


def test_a_port_that_the_run_itself_holds_is_the_runs_own_mistake(submit_to_nodes, service, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNYARD_NETWORK", "host")
    twice = "import os, socket\na, b = socket.socket(), socket.socket()\n" + "".join(
        f"{name}.bind(('127.0.0.1', int(os.environ['PORT'])))\n{name}.listen()\n" for name in "ab"
    )
    wishes = ((PortRequest("master", a_free_port()),), ())
    submit_to_nodes(twice, [a_rank(0, PORT="<port:0:master>")], [a_rank(1, PORT="0")], ports=wishes)
    first, _ = service.all_ended(2)
    assert "Address already in use" in rank_log(service, 0)
    assert first["error"]["code"] == "UserError"
