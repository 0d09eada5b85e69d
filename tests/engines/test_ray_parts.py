"""The parts of the Ray engine that need no Ray."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.compute.ray.address import parse_address, require_ray
from runyard.compute.ray.cluster_client import NodeSilent
from runyard.compute.ray.cluster_state import ClusterState, NodeKind, RayNode, bundle_of, check_allocation, words_for
from runyard.compute.ray.engine import RayEngine
from runyard.compute.ray.names import AllocationName, parse_allocation_name, service_id
from runyard.compute.remote.node_agent import claim_home, require_version
from runyard.compute.remote.nodes import Placement, Placements
from runyard.compute.sites import read_vm_sizes
from runyard.compute.vm_sizes import BUILT_IN
from runyard.core.errors import EngineError, InvalidArgument
from runyard.core.ports.engine import NodeTaskPhase, ObservedTask, ticket_for
from runyard.core.records.runs import AttemptId, RunId
from runyard.core.version import VERSION
from runyard.node.guard import open_guard
from runyard.node.processes.procfs import ProcessId, identify

GB = 1024**3


@pytest.mark.parametrize("address", ["10.0.0.7:6379", "head.example.org:6379", "ray://head:10001", "[::1]:6379"])
def test_both_forms_of_an_address_are_taken_as_they_are(address: str) -> None:
    assert parse_address(f" {address} ") == address


@pytest.mark.parametrize(
    "address", ["", "head", "head:0", "head:99999", "http://head:1", "a b:1", "head:1\0", "auto", None]
)
def test_anything_else_is_refused_and_shown(address: str) -> None:
    with pytest.raises(InvalidArgument, match="address must be HOST:PORT"):
        parse_address(address)


def test_an_address_where_nobody_listens_is_said_to_be_one() -> None:
    with pytest.raises(EngineError, match=r"Nobody answers at 127\.0\.0\.9:1"):
        require_ray("127.0.0.9:1")


def test_a_host_of_any_length_is_refused_in_a_few_words() -> None:
    parse_address("h" * 253 + ":1")
    with pytest.raises(InvalidArgument, match="hhh'") as refused:
        parse_address("h" * 5000 + ":1")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_listens_but_is_no_ray_is_said_to_be_none_within_seconds(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        kept: list[socket.socket] = []
        threading.Thread(target=lambda: kept.append(greeted(listener, said)), daemon=True).start()
        asked_at = time.monotonic()
        with pytest.raises(EngineError, match=f"Something listens at {address}, but it is no Ray"):
            require_ray(address)
        assert time.monotonic() - asked_at < 5
        for connection in kept:
            connection.close()


def greeted(listener: socket.socket, said: bytes) -> socket.socket:
    """The next connection, which is left open."""
    connection, _ = listener.accept()
    connection.sendall(said)
    return connection


def test_an_address_that_swallows_what_it_is_sent_is_told_within_seconds() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)  # room for one who waits: whoever comes next gets no answer
        address = deaf.getsockname()
        asked_at = time.monotonic()
        with socket.create_connection(address), pytest.raises(EngineError, match="Nobody answers"):
            require_ray(f"127.0.0.1:{address[1]}")
    assert time.monotonic() - asked_at < 5


def test_a_gang_is_known_again_by_its_name_whatever_is_in_it() -> None:
    name = AllocationName("0123456789ab", "a/b", "gpu cluster", "run_1/../x")
    assert parse_allocation_name(str(name)) == name
    assert parse_allocation_name("somebody/elses") is None


def test_a_home_keeps_its_service_id_and_another_has_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert service_id(tmp_path / "one") == service_id(tmp_path / "one") != service_id(tmp_path / "two")


def test_a_spoilt_service_id_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "service-id").write_text("../..")
    assert len(service_id(tmp_path)) == 12


def test_resources_come_before_the_vm_size_and_both_before_one_cpu() -> None:
    assert bundle_of({"resources": {"cpu": 2, "gpu": None}, "vm_size": "STANDARD_NC6"}, BUILT_IN) == {"CPU": 2.0}
    assert bundle_of({"vm_size": "STANDARD_NC6"}, BUILT_IN) == {"CPU": 6.0, "GPU": 1.0, "memory": 56.0 * GB}
    assert bundle_of({}, BUILT_IN) == {"CPU": 1.0}
    assert bundle_of({"resources": {"tpu": 4}}, BUILT_IN) == {"tpu": 4.0}


@pytest.mark.parametrize(
    ("name", "amount"), [("cpu", -1), ("cpu", "many"), ("gpu", 0.5), ("memory_gb", float("inf")), ("cpu", True)]
)
def test_an_amount_that_cannot_be_is_refused_by_its_name(name: str, amount: object) -> None:
    with pytest.raises(InvalidArgument, match=name):
        bundle_of({"resources": {name: amount}}, BUILT_IN)


def a_state(*, autoscales: bool | None = False, kinds: tuple[NodeKind, ...] = (), nodes: int = 2) -> ClusterState:
    made = tuple(RayNode(f"n{i}", f"10.0.0.{i}", f"n{i}", True, resources={"CPU": 4.0}) for i in range(nodes))
    return ClusterState(made, (), autoscales, kinds)


def test_a_gang_that_fits_passes_and_one_too_many_is_refused_with_the_numbers() -> None:
    check_allocation(2, {"CPU": 4.0}, a_state())
    with pytest.raises(InvalidArgument, match=r"needs 3 nodes with 4 CPU each .* can give 2"):
        check_allocation(3, {"CPU": 4.0}, a_state())
    with pytest.raises(InvalidArgument, match=r"1 node with 1 GPU, 2 GB each .* can give 0.*0 GPU, 0 GB"):
        check_allocation(1, {"GPU": 1.0, "memory": 2.0 * GB}, a_state())


def test_what_an_autoscaler_can_start_counts_and_what_cannot_be_told_passes() -> None:
    kinds = (NodeKind("large", {"CPU": 64.0}, 5),)
    check_allocation(5, {"CPU": 64.0}, a_state(autoscales=True, kinds=kinds))
    with pytest.raises(InvalidArgument, match="can give 5"):
        check_allocation(6, {"CPU": 64.0}, a_state(autoscales=True, kinds=kinds))
    check_allocation(100, {"CPU": 64.0}, a_state(autoscales=None))
    check_allocation(100, {"CPU": 64.0}, a_state(autoscales=True))


def test_sizes_are_told_in_words() -> None:
    assert words_for({"CPU": 6.0, "GPU": 1.0, "memory": 56.0 * GB}) == "6 CPU, 1 GPU, 56 GB"


@pytest.mark.parametrize(("suffix", "text"), [("toml", "[TINY]\ncpu = 1\n"), ("json", '{"TINY": {"cpu": 1}}')])
def test_the_operators_sizes_are_read_from_toml_and_json(tmp_path: Path, suffix: str, text: str) -> None:
    file = tmp_path / f"sizes.{suffix}"
    file.write_text(text)
    assert bundle_of({"vm_size": "tiny"}, read_vm_sizes(file)) == {"CPU": 1.0}


def test_a_file_of_sizes_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "sizes.toml").write_text("= =")
    with pytest.raises(InvalidArgument, match=r"sizes\.toml"):
        read_vm_sizes(tmp_path / "sizes.toml")


def test_placements_outlive_the_service_and_go_with_their_run(tmp_path: Path) -> None:
    node = RayNode("id1", "10.0.0.1", "n1", True)
    Placements(tmp_path / "p").keep(Placement(AttemptId("a/../b.1"), RunId("a/../b"), (node, node)))
    again = Placements(tmp_path / "p")
    found = again.find("a/../b.1")
    assert found is not None
    assert [part for part, _ in found.parts()] == ["a/../b.1", "a/../b.1-1"]
    again.forget_others({RunId("a/../b")})
    assert again.busy_nodes({RunId("a/../b")}) == {"id1"}
    again.forget_others(set())
    assert again.find("a/../b.1") is None


def test_a_damaged_placement_is_none(tmp_path: Path) -> None:
    (tmp_path / "r.1.json").write_text('{"run_id": "r"')
    assert Placements(tmp_path).find("r.1") is None


@pytest.fixture
def raylet() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def guard_of(pid: int) -> ProcessId:
    found = identify(pid)
    assert found is not None
    return found


def test_nodes_of_one_address_have_homes_of_their_own_and_a_gone_one_leaves_its(
    tmp_path: Path, raylet: subprocess.Popen[bytes]
) -> None:
    first, second = guard_of(raylet.pid), guard_of(os.getpid())
    home = claim_home(tmp_path, "service", "10.0.0.1", first)
    other = claim_home(tmp_path, "service", "10.0.0.1", second)
    assert home != other
    assert claim_home(tmp_path, "service", "10.0.0.1", first) == home
    assert claim_home(tmp_path, "another", "10.0.0.1", first).parent != home.parent
    raylet.kill()
    raylet.wait()
    assert claim_home(tmp_path, "service", "10.0.0.1", ProcessId(1, 1)) == home


def test_no_address_leads_out_of_the_folder_of_nodes(tmp_path: Path) -> None:
    home = claim_home(tmp_path, "../up", "/etc", guard_of(os.getpid()))
    assert home.is_relative_to(tmp_path)
    assert home.resolve().parent.parent == tmp_path.resolve()


def test_a_guard_is_no_later_process_with_its_number(raylet: subprocess.Popen[bytes]) -> None:
    real = guard_of(raylet.pid)
    assert open_guard(ProcessId(real.pid, real.started + 1)) is None
    descriptor = open_guard(real)
    assert descriptor is not None
    os.close(descriptor)
    with pytest.raises(ValueError, match="invalid literal"):
        ProcessId.parse("raylet")


def test_a_node_of_another_version_is_refused_with_both() -> None:
    require_version(VERSION, "runyard[ray]")
    with pytest.raises(EngineError, match=rf"has runyard {VERSION}, the service 99\.0.*runyard\[ray\]==99\.0"):
        require_version("99.0", "runyard[ray]")


class SilentNodes:
    """A cluster, some of whose nodes do not answer; `leaves` go between the first look and the second."""

    def __init__(self, *silent: str, leaves: tuple[str, ...] = ()) -> None:
        self.link = self
        self.address = "10.0.0.9:6379"
        self._silent, self._leaves, self._looks = silent, leaves, 0
        self.patience: list[float] = []
        self.replaced: list[str] = []

    def away_seconds(self) -> float:
        return 0.0

    def refresh(self) -> ClusterState:
        self._looks += 1
        state = a_state()
        if self._looks == 1:
            return state
        return replace(state, nodes=tuple(replace(n, is_alive=n.id not in self._leaves) for n in state.nodes))

    def ask(self, requests: list[tuple[RayNode, dict]], *, seconds: float) -> list[dict | EngineError]:
        self.patience.append(seconds)
        return [
            NodeSilent(f"{node.id} is silent")
            if node.id in self._silent
            else {"phases": dict.fromkeys(request.get("parts", ()), "alive")}
            for node, request in requests
        ]

    def replace_agent(self, node: RayNode) -> None:
        self.replaced.append(node.id)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def an_engine(cluster: SilentNodes, folder: Path, clock: Clock | None = None) -> RayEngine:
    placements = Placements(folder)
    placements.keep(Placement(AttemptId("r.1"), RunId("r"), a_state().nodes))
    return RayEngine(cluster, placements, dict, clock or Clock())


def observed(engine: RayEngine) -> list[ObservedTask]:
    return list(engine.observe([ticket_for("r.1", 2)])[ticket_for("r.1", 2)])


def test_a_silent_node_that_ray_still_has_is_no_loss_and_hides_no_other(tmp_path: Path) -> None:
    seen = observed(an_engine(SilentNodes("n1"), tmp_path))
    assert [part.phase for part in seen] == [NodeTaskPhase.ALIVE, NodeTaskPhase.ALIVE]
    assert "n1 (10.0.0.1) does not answer" in seen[1].why


def test_a_silent_node_that_ray_has_given_up_meanwhile_is_gone(tmp_path: Path) -> None:
    seen = observed(an_engine(SilentNodes("n1", leaves=("n1",)), tmp_path))
    assert [part.phase for part in seen] == [NodeTaskPhase.ALIVE, NodeTaskPhase.GONE]


def test_nothing_is_said_when_no_node_answers(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is silent"):
        observed(an_engine(SilentNodes("n0", "n1"), tmp_path))


def test_a_silent_node_is_not_waited_for_twice_and_gets_one_new_agent(tmp_path: Path) -> None:
    cluster, clock = SilentNodes("n1"), Clock()
    engine = an_engine(cluster, tmp_path, clock)
    observed(engine)
    for _ in range(3):
        clock.now += 25
        observed(engine)
    assert cluster.patience == [10, *[10, 1] * 3]
    assert cluster.replaced == ["n1"]


def test_what_is_to_end_on_a_node_that_stays_silent_is_gone_after_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    engine = an_engine(SilentNodes("n1"), tmp_path, clock)
    with pytest.raises(EngineError, match="n1 is silent"):
        engine.cancel(ticket_for("r.1", 2), grace=timedelta(seconds=1))
    clock.now += 59
    assert [part.phase for part in observed(engine)] == [NodeTaskPhase.ALIVE, NodeTaskPhase.ALIVE]
    clock.now += 1
    seen = observed(engine)
    assert [part.phase for part in seen] == [NodeTaskPhase.ALIVE, NodeTaskPhase.GONE]
    assert "n1 (10.0.0.1) has not answered for 60 s, though Ray calls it alive" in seen[1].why


def test_what_goes_on_is_not_given_up_for_a_node_that_stays_silent(tmp_path: Path) -> None:
    clock = Clock()
    engine = an_engine(SilentNodes("n1"), tmp_path, clock)
    observed(engine)
    clock.now += 600
    assert [part.phase for part in observed(engine)] == [NodeTaskPhase.ALIVE, NodeTaskPhase.ALIVE]
