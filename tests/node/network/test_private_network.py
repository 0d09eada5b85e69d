"""Networks of real namespaces, carried by the real pasta."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runyard.core.errors import EngineError
from runyard.node.network.loopback import ports_to_reach
from runyard.node.network.private_network import PrivateNetwork, why_no_private_network
from runyard.node.processes.procfs import identify
from tests.needs import require

END_SECONDS = 60.0


@pytest.fixture
def network(tmp_path):
    require("private network")
    made = PrivateNetwork.make(tmp_path, {})
    yield made
    made.close()


@pytest.fixture
def listening():
    """Something of this machine that listens on its loopback address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def inside(network: PrivateNetwork, program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, preexec_fn=network.enter, capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout + done.stderr).strip()


CONNECTS = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()
    print("connected")
except OSError as e:
    print("refused")
"""
SERVES = """
import socket, sys
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print(server.getsockname()[1], flush=True)
server.settimeout(30)
server.accept()
print("somebody came", flush=True)
"""
ANSWERS_ON_NODES = """
import socket, sys
for address in ("127.0.3.2", "127.0.3.3"):
    with socket.create_server((address, 2222)) as server:
        socket.create_connection((address, 2222), 5).close()
        print(server.accept()[1][0])
"""


@pytest.mark.needs("private network")
def test_a_network_whose_pasta_was_killed_is_connected_anew(tmp_path, listening):
    port = listening.getsockname()[1]
    network = PrivateNetwork.make(tmp_path, {})
    try:
        before = network.connection
        os.kill(before, signal.SIGKILL)
        os.waitpid(before, 0)
        assert inside(network, CONNECTS, "127.0.0.1", port) == "refused"
        assert network.reconnect() in network.pids - {before}
        assert inside(network, CONNECTS, "127.0.0.1", port) == "connected"
    finally:
        network.close()


@pytest.mark.needs("private network")
def test_the_loopback_of_the_machine_is_reached(tmp_path, listening):
    network = PrivateNetwork.make(tmp_path, {})
    with contextlib.closing(network):
        assert inside(network, CONNECTS, "127.0.0.1", listening.getsockname()[1]) == "connected"


@pytest.mark.needs("private network")
def test_the_service_and_proxies_are_reached_though_they_come_up_later(tmp_path, listening):
    port = listening.getsockname()[1]
    listening.close()
    network = PrivateNetwork.make(tmp_path, {"RUNYARD_URL": f"http://127.0.0.1:{port}", "http_proxy": "no address"})
    with contextlib.closing(network), socket.create_server(("127.0.0.1", port)):
        assert inside(network, CONNECTS, "127.0.0.1", port) == "connected"


def test_every_loopback_address_is_a_node(network):
    assert inside(network, ANSWERS_ON_NODES).split() == ["127.0.0.1", "127.0.0.1"]


def test_two_networks_use_the_same_port_and_neither_is_seen_from_outside(network, tmp_path):
    other = PrivateNetwork.make(tmp_path, {})
    servers = []
    try:
        port = int(_first_line(_serve(network, 0, servers)))
        assert int(_first_line(_serve(other, port, servers))) == port
        for address in ("127.0.0.1", *_addresses_of_this_machine()):
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((address, port), 5)
        assert inside(network, CONNECTS, "127.0.0.5", port) == "connected"
        assert _first_line(servers[0]) == "somebody came"
        assert not select.select([servers[1].stdout], [], [], 0)[0]
    finally:
        for server in servers:
            server.kill()
            server.communicate()
        other.close()


def test_the_outside_is_reached_as_before(network):
    """By its route: whether somebody answers there is not ours to say."""
    routes = inside(network, "print(open('/proc/net/route').read())")
    assert "00000000" in [line.split()[1] for line in routes.splitlines()[1:]]


def test_another_process_joins_by_the_holder(network, listening):
    joined = PrivateNetwork.join(network.pid)
    with contextlib.closing(joined):
        assert joined.pids == frozenset()
        show = "import os; print(os.readlink('/proc/self/ns/net'))"
        assert inside(joined, show) == inside(network, show) != os.readlink("/proc/self/ns/net")


@pytest.mark.needs("private network")
def test_a_network_that_is_gone_cannot_be_joined(tmp_path):
    network = PrivateNetwork.make(tmp_path, {})
    network.close()
    with pytest.raises(EngineError, match="cannot be joined"):
        PrivateNetwork.join(network.pid)


@pytest.mark.needs("private network")
def test_closing_leaves_no_process_and_no_file(tmp_path):
    network = PrivateNetwork.make(tmp_path, {})
    keepers = [identify(pid) for pid in network.pids]
    network.close()
    network.close()
    assert not any(keeper.is_alive() for keeper in keepers)
    assert list(tmp_path.iterdir()) == []


MAKES_AND_WAITS = """
import sys, signal
from pathlib import Path
from runyard.node.network.private_network import PrivateNetwork
network = PrivateNetwork.make(Path(sys.argv[1]), {})
print(*network.pids, flush=True)
signal.pause()
"""


@pytest.mark.needs("private network")
def test_what_keeps_it_dies_with_who_made_it(tmp_path):
    maker = subprocess.Popen([sys.executable, "-c", MAKES_AND_WAITS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    keepers = [identify(int(pid)) for pid in _first_line(maker).split()]
    assert len(keepers) == 2
    assert all(keeper.is_alive() for keeper in keepers)
    maker.kill()
    maker.communicate()
    ends_at = time.monotonic() + END_SECONDS
    while any(keeper.is_alive() for keeper in keepers):
        assert time.monotonic() < ends_at


def test_the_holder_keeps_nothing_of_its_maker_open(network, tmp_path):
    assert os.listdir(f"/proc/{network.pid}/fd") == []


@pytest.mark.needs("private network")
def test_the_setting_keeps_runs_in_the_machines_network():
    assert why_no_private_network({}) == ""
    assert why_no_private_network({"RUNYARD_NETWORK": "host"}) == "RUNYARD_NETWORK=host says so."


def test_without_pasta_it_is_said_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install passt" in why_no_private_network({})
    with pytest.raises(EngineError, match="apt-get install passt"):
        PrivateNetwork.make(tmp_path, {})


def test_a_pasta_that_fails_is_quoted_and_leaves_nothing(monkeypatch, tmp_path):
    program = tmp_path / "bin/pasta"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho cannot do this >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(EngineError, match=r"pasta could not connect a private network: cannot do this"):
        PrivateNetwork.make(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_ports_of_other_hosts_and_broken_addresses_are_not_reached_for():
    named = {
        "RUNYARD_URL": "http://localhost:7001/",
        "http_proxy": "http://proxy.example:7002",
        "https_proxy": "http://[::1]:7003",
        "all_proxy": "socks5h://127.0.0.1",
        "HTTP_PROXY": "http://127.0.0.1:99999999",
    }
    # What listens on this machine counts too, and another process may begin to listen between two looks.
    found = [set(ports_to_reach(named)) - set(ports_to_reach({})) for _ in range(5)]
    assert set.intersection(*found) == {7001, 7003, 1080}


AS_ORDINARY_USER = """
import ctypes, os, subprocess, sys, tempfile
from pathlib import Path
from runyard.node.network.private_network import PrivateNetwork, why_no_private_network
from tests.needs import require
os.setgroups([]); os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable, as any process that begins as this user
assert why_no_private_network({}) == "", why_no_private_network({})
network = PrivateNetwork.make(Path(sys.argv[1]), {})
print(subprocess.run(["id", "-u"], preexec_fn=network.enter, capture_output=True, text=True).stdout.strip())
connect = "exec 3<>/dev/tcp/127.0.0.1/$0 && echo connected"
done = subprocess.run(["bash", "-c", connect, sys.argv[2]], preexec_fn=network.enter, capture_output=True, text=True)
print(done.stdout + done.stderr)
network.close()
"""


@pytest.mark.needs("root", "user devices", "private network")
def test_an_ordinary_user_has_it_too_and_stays_who_he_is(listening):
    folder = Path(os.environ["TMPDIR"])
    command = [sys.executable, "-c", AS_ORDINARY_USER, str(folder), str(listening.getsockname()[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["65534", "connected"], done.stderr


WITH_RESOLVER_ON_LOOPBACK = """
import subprocess, sys
from pathlib import Path
from runyard.data.fuse import kernel
from runyard.node.network.private_network import PrivateNetwork, why_no_private_network
from runyard.node.network import loopback
folder = Path(sys.argv[1])
(folder / "settings").write_text("nameserver 127.0.0.53\\n")
assert kernel.unshare_mounts()
kernel.bind(folder / "settings", loopback.RESOLVER_SETTINGS.resolve(), read_only=True)
loopback.UPSTREAM_SETTINGS = folder / "behind"
print(why_no_private_network({}))
loopback.UPSTREAM_SETTINGS.write_text("nameserver 192.0.2.53\\n")
network = PrivateNetwork.make(folder, {})
print(subprocess.run(["cat", "/etc/resolv.conf"], preexec_fn=network.enter, capture_output=True, text=True).stdout)
network.close()
print(loopback.RESOLVER_SETTINGS.read_text())
"""


@pytest.mark.needs("root", "private network")
def test_names_are_looked_up_behind_a_server_on_the_machines_loopback(tmp_path):
    command = [sys.executable, "-c", WITH_RESOLVER_ON_LOOPBACK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n") == [
        "This machine looks names up at 127.0.0.53, which a private network does not reach.",
        "nameserver 192.0.2.53",
        "",
        "nameserver 127.0.0.53",
        "",
        "",
    ], done.stderr


MOUNTS_AS_ORDINARY_USER = """
import ctypes, os
from runyard.data.fuse.kernel import unshare_mounts
from runyard.node.network.private_network import why_no_private_network
os.setgroups([]); os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
assert unshare_mounts()
print(why_no_private_network({}))
"""


@pytest.mark.needs("root", "user namespace")
def test_an_ordinary_users_run_that_mounts_data_stays_in_the_machines_network():
    """Its supervisors live in user namespaces of their own, and none of those can join another's network."""
    done = subprocess.run([sys.executable, "-c", MOUNTS_AS_ORDINARY_USER], capture_output=True, text=True, check=True)
    assert "mounts data as an ordinary user" in done.stdout


def _serve(network: PrivateNetwork, port: int, servers: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SERVES, str(port)]
    servers.append(subprocess.Popen(command, preexec_fn=network.enter, stdout=subprocess.PIPE, text=True))
    return servers[-1]


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _addresses_of_this_machine() -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.200", 9))  # sends nothing: the kernel says which address it would use
        return [probe.getsockname()[0]]
