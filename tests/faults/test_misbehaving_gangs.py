"""Ranks that flood, hang or fill the disk, nodes that freeze or lack a program, strangers on their ports."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.testing.small_disk import mounted
from tests.faults.gangs import Gang
from tests.faults.yard import Yard, ended, eventually, is_alive, message_of

pytestmark = pytest.mark.slow

FULL = os.environ.get("RUNYARD_FAULTS") == "full"
FLOOD_MB = 100 if FULL else 10
MOST_GROWTH_KB = 48 << 10
DRIVER_LOG = "azureml-logs/70_driver_log_{}.txt"
MPI_PROGRAMS = ("mpirun", "mpiexec", "orterun", "orted")
FLOODS = f"""
import os
line = b"x" * 1023 + b"\\n"
for _ in range({FLOOD_MB} << 10):
    os.write(1, line)
"""
HANGS = """
import time
def a_lock_that_never_comes():
    time.sleep(600)
a_lock_that_never_comes()
"""
SECOND_FILLS = """
import os, time
if os.environ["RUNYARD_RANK"] != "1":
    time.sleep(600)
with open("filler", "wb", buffering=0) as sink:
    while True:
        sink.write(bytes(1 << 20))
"""
BINDS = """
import os, socket, sys, time
def wait_for(name):
    while not os.path.exists(os.path.join(sys.argv[1], name)):
        time.sleep(0.01)
def note(name, text):
    with open(os.path.join(sys.argv[1], name + ".new"), "w") as sink:
        sink.write(text)
    os.rename(sink.name, os.path.join(sys.argv[1], name))
if os.environ["RANK"] == "0":
    note("port", os.environ["MASTER_PORT"])
    wait_for("gate")
    server = socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    note("bound", os.environ["MASTER_PORT"])
wait_for("bound")
"""


@pytest.fixture
def host_yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    """Where runs live in the machine's own network."""
    monkeypatch.setenv("RUNYARD_NETWORK", "host")
    yield from _opened(tmp_path, tmp_path / "home", monkeypatch)


@pytest.fixture
def yard_without_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if program.name not in MPI_PROGRAMS and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    assert shutil.which("sh")
    assert not shutil.which("mpirun")
    yield from _opened(tmp_path, tmp_path / "home", monkeypatch)


@pytest.fixture
def small_yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    with mounted(tmp_path / "small", 96) as disk:
        yield from _opened(tmp_path, disk / "home", monkeypatch)


def _opened(root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setenv("RUNYARD_HOME", str(home))
    (root / "sources").mkdir()
    yard = Yard(root / "sources")
    yield yard
    yard.close()


@pytest.mark.needs("mpi")
def test_ranks_that_flood_their_logs_lose_nothing_and_are_held_in_no_memory(yard: Yard, tmp_path: Path) -> None:
    gang = Gang(yard, "mpi", 2, tmp_path).submit(FLOODS)
    service = gang.pid_of("service")
    before = _most_memory_kb(service)
    supervisors = [gang.pid_of(f"supervisor {node}") for node in range(2)]
    first = [_most_memory_kb(pid) for pid in supervisors]
    most = list(first)
    while any(map(is_alive, supervisors)):
        most = [max(known, _most_memory_kb(pid)) for known, pid in zip(most, supervisors, strict=True)]
        time.sleep(0.02)
    assert ended(gang.run).get_status() == "Completed", message_of(gang.run)
    assert max(now - then for now, then in zip(most, first, strict=True)) < MOST_GROWTH_KB
    assert _most_memory_kb(service) - before < MOST_GROWTH_KB
    for rank in range(2):
        target = tmp_path / f"log-{rank}"
        gang.run.download_file(DRIVER_LOG.format(rank), str(target))
        assert target.stat().st_size == FLOOD_MB << 20
    gang.check_nothing_is_left()


@pytest.mark.needs("mpi")
def test_what_every_rank_of_a_launcher_was_doing_is_told_when_its_time_is_up(yard: Yard, tmp_path: Path) -> None:
    gang = Gang(yard, "mpi", 2, tmp_path).submit(HANGS, max_run_duration_seconds=3)
    run = ended(gang.run)
    assert run.get_status() == "Canceled"
    assert "max_run_duration_seconds (3)" in message_of(run)
    logs = run.get_details_with_logs()["logFiles"]
    for rank in range(2):
        assert "a_lock_that_never_comes (train.py:4)" in logs[DRIVER_LOG.format(rank)]
    gang.check_nothing_is_left()


def test_a_rank_that_fills_its_nodes_disk_is_named(small_yard: Yard, tmp_path: Path) -> None:
    gang = Gang(small_yard, "torch", 2, tmp_path).submit(SECOND_FILLS)
    run = ended(gang.run)
    assert run.get_status() == "Failed"
    assert "no space left on the node's disk" in message_of(run)
    assert "rank 1 on node gang-1" in message_of(run)
    gang.check_nothing_is_left()
    assert small_yard.finish("print('there is room again')").get_status() == "Completed"


def test_a_gang_whose_port_a_stranger_took_is_started_again_on_another(host_yard: Yard, tmp_path: Path) -> None:
    gang = Gang(host_yard, "torch", 2, tmp_path).submit(BINDS)
    port = int(eventually(lambda: _text(tmp_path / "port"), "the port"))
    with socket.socket() as stranger:
        stranger.bind(("", port))
        stranger.listen()
        gang.let_go()
        run = ended(gang.run)
    assert run.get_status() == "Completed", message_of(run)
    assert int(_text(tmp_path / "bound")) != port
    assert any(f"Port {port} was free when it was chosen" in str(said) for said in run.get_details()["warnings"])


def test_a_node_without_open_mpi_says_what_to_install(yard_without_mpi: Yard, tmp_path: Path) -> None:
    gang = Gang(yard_without_mpi, "mpi", 2, tmp_path).submit()
    run = ended(gang.run)
    assert run.get_status() == "Failed"
    assert "has no orted of Open MPI" in message_of(run)
    assert "apt-get install openmpi-bin" in message_of(run)
    gang.check_nothing_is_left()


@pytest.mark.needs("mpi")
@pytest.mark.parametrize("layout", ["mpi", "torch", "ps"] if FULL else ["mpi"])
def test_cancel_ends_every_rank_though_a_node_is_frozen(yard: Yard, tmp_path: Path, layout: str) -> None:
    gang = Gang(yard, layout, 2, tmp_path).submit()
    gang.until_all_run()
    ranks = [gang.pid_of(f"rank {rank}") for rank in range(2)]
    os.kill(gang.pid_of("supervisor 1"), signal.SIGSTOP)
    gang.run.cancel()
    eventually(lambda: not any(map(is_alive, ranks)), "the end of all ranks", 8)
    assert ended(gang.run).get_status() == "Canceled"
    gang.check_nothing_is_left()


def _most_memory_kb(pid: int) -> int:
    """VmHWM; 0 of one that has ended."""
    status = _text(Path(f"/proc/{pid}/status"))
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""
