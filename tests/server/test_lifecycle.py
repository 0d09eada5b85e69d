import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from runyard.compute.local.kind import LocalEngine
from runyard.core.errors import InvalidArgument, RunyardError, StorageFull
from runyard.core.worker_variables import WORKER_VARIABLES
from runyard.node.home_socket import ask_agent
from runyard.server.lifecycle import service_status, start_service, stop_service
from runyard.server.lifecycle.discovery import read_facts, write_facts
from runyard.storage import home as homes
from runyard.testing.small_disk import mounted
from runyard_sdk.errors import ServiceUnavailable
from runyard_sdk.start import ensure
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow
as_a_program = pytest.mark.usefixtures("services_are_programs")
"""For tests of commands, signals and variables. What a service does with its home is the same in a fork."""

START = "import sys; from pathlib import Path; from runyard.server.lifecycle import start_service; "
START += "print(start_service(Path(sys.argv[1]), keep=False)['pid'])"


def client_of(facts):
    return WireClient(facts["url"], facts["token"], workspace="default")


def end_by_force(facts):
    """kill -9, and wait until the process is gone."""
    opened = os.pidfd_open(facts["pid"])
    os.kill(facts["pid"], signal.SIGKILL)
    _wait_for_end(opened)


def _wait_for_end(opened):
    assert select.select([opened], [], [], 20)[0], "the process did not end"
    os.close(opened)


def test_eight_starters_end_in_one_service(home):
    with ThreadPoolExecutor(8) as pool:
        said = pool.map(lambda _: subprocess.check_output([sys.executable, "-c", START, str(home)]), range(8))
        pids = {int(line) for line in said}
    assert pids == {service_status(home)["pid"]}


@as_a_program
def test_several_serve_commands_at_once_end_in_one_service(home):
    command = [sys.executable, "-m", "runyard.server.lifecycle.process", "--on-demand"]
    variables = {**os.environ, "RUNYARD_HOME": str(home)}
    several = [subprocess.Popen(command, env=variables, cwd=home) for _ in range(3)]
    facts = start_service(home, keep=False)
    others = [process for process in several if process.pid != facts["pid"]]
    assert len(others) >= 2
    assert {process.wait(20) for process in others} == {0}
    assert stop_service(home)
    assert {process.wait(20) for process in several} == {0}


@pytest.mark.parametrize("older", [{"version": "0.0.9"}, {"api": 1}], ids=str)
def test_up_replaces_a_service_of_an_earlier_build(home, older):
    facts = start_service(home, keep=True)
    write_facts(home, {**facts, **older})
    replaced = start_service(home, keep=False)
    assert replaced["pid"] != facts["pid"]
    assert replaced["kept"], "it stays as it was kept"
    assert start_service(home, keep=False) == replaced


@as_a_program
def test_a_second_serve_says_who_serves_the_home_and_fails(home):
    facts = start_service(home, keep=True)
    command = [sys.executable, "-m", "runyard.server.lifecycle.process"]
    second = subprocess.run(
        command, env={**os.environ, "RUNYARD_HOME": str(home)}, capture_output=True, text=True, timeout=60
    )
    assert second.returncode == 1
    assert f"{home} is served already: process {facts['pid']}, at {facts['url']}." in second.stderr
    assert service_status(home) == facts


@as_a_program
def test_the_discovery_file_says_who_and_where_and_is_private(home):
    facts = start_service(home, keep=True)
    assert json.loads((home / "service.json").read_text()) == facts
    told = {"url", "token", "pid", "host", "boot", "version", "wire", "python", "runyard", "kept", "home", "home_id"}
    assert set(facts) == {*told, "api"}
    assert facts["url"].startswith("http://127.0.0.1:")
    for name in ("service.json", "token"):
        assert (home / name).stat().st_mode & 0o777 == 0o600
    assert stop_service(home)
    assert not (home / "service.json").exists()
    assert not stop_service(home)


@as_a_program
def test_kill_and_restart_find_everything(home):
    facts = start_service(home, keep=False)
    client = client_of(facts)
    client.put("/workspaces/default", {"exist_ok": True})
    client.interactive_run("survivor")
    blob = client.put_blob(b"kept")
    client.post("/runs/survivor/files", {"entries": [["outputs/x", blob, 4, 0o644]]})
    client.post("/runs/survivor/journals/survivor~0-1-a?offset=0", b'["m","acc",0.5,null,1.0]\n')
    client.post("/runs/survivor/logs/azureml-logs/70_driver_log.txt?offset=0", b"said\n")
    client.put("/workspaces/default/secrets/s", {"value": "v"})
    end_by_force(facts)
    assert service_status(home) is None
    again = start_service(home, keep=False)
    assert again["pid"] != facts["pid"]
    assert (again["url"], again["token"]) == (facts["url"], facts["token"])
    client = client_of(again)
    assert client.get("/runs/survivor?metrics=1")["metrics"] == {"acc": 0.5}
    assert client.read("/runs/survivor/files/outputs/x") == b"kept"
    assert client.read("/runs/survivor/files/azureml-logs/70_driver_log.txt") == b"said\n"
    assert client.get("/workspaces/default/secrets/s") == {"value": "v"}


def test_a_file_of_another_boot_or_host_is_stale(home):
    facts = start_service(home, keep=False)
    assert read_facts(home) == facts
    for changed in ({"boot": "another"}, {"host": "another"}):
        write_facts(home, {**facts, **changed})
        assert service_status(home) is None
    write_facts(home, facts)
    assert service_status(home) == facts


def test_a_taken_port_is_not_waited_for(home):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        (home / "port").write_text(str(taken))
        facts = start_service(home, keep=False)
        assert facts["url"] != f"http://127.0.0.1:{taken}"
        assert service_status(home) == facts


def test_it_stops_when_idle_and_not_while_a_follower_listens(home, monkeypatch):
    monkeypatch.setenv("RUNYARD_IDLE_SECONDS", "0.5")
    facts = start_service(home, keep=False)
    opened = os.pidfd_open(facts["pid"])
    client = client_of(facts)
    client.put("/workspaces/default", {"exist_ok": True})
    client.interactive_run("quiet")
    stream = client.lines("/runs/quiet/stream")
    next(stream)
    asked_at = time.monotonic()
    client.get("/runs/quiet/wait?version=99&timeout=1.5")
    assert time.monotonic() - asked_at >= 1.5
    assert service_status(home) is not None
    stream.close()
    _wait_for_end(opened)
    assert not (home / "service.json").exists()


def test_up_keeps_a_service_that_was_started_on_demand(home, monkeypatch):
    monkeypatch.setenv("RUNYARD_IDLE_SECONDS", "0.3")
    facts = start_service(home, keep=False)
    kept = start_service(home, keep=True)
    assert (kept["pid"], kept["kept"]) == (facts["pid"], True)
    assert read_facts(home)["kept"] is True


def test_a_stop_ends_open_streams_and_is_quick(home):
    client = client_of(start_service(home, keep=False))
    client.put("/workspaces/default", {"exist_ok": True})
    client.interactive_run("followed")
    rest = []
    stream = client.lines("/runs/followed/stream")
    next(stream)
    following = threading.Thread(target=lambda: rest.extend(stream))
    following.start()
    began = time.monotonic()
    assert stop_service(home)
    following.join(20)
    assert not following.is_alive()
    assert rest == []
    assert time.monotonic() - began < 4


@as_a_program
def test_sigterm_stops_it_cleanly(home):
    facts = start_service(home, keep=False)
    opened = os.pidfd_open(facts["pid"])
    os.kill(facts["pid"], signal.SIGTERM)
    _wait_for_end(opened)
    assert not (home / "service.json").exists()


def test_a_newer_database_is_refused_with_its_reason(home):
    facts = start_service(home, keep=False)
    assert facts
    stop_service(home)
    with sqlite3.connect(home / "runyard.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999_from_the_future'")
    with pytest.raises(RunyardError, match="newer"):
        start_service(home, keep=False)
    assert not (home / "start-error.json").exists()


def test_the_kind_of_a_file_system_is_that_of_the_nearest_mount():
    table = (
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 22 0:40 / /home rw,relatime shared:1 - nfs4 server:/home rw\n"
        "31 30 8:2 / /home/me/with\\040space rw - xfs /dev/sdb rw\n"
        "32 22 0:41 / /mnt/remote rw - fuse.sshfs host: rw\n"
    )
    assert homes.file_system_of(Path("/home/me/.runyard"), table) == "nfs4"
    assert homes.file_system_of(Path("/home/me/with space/x"), table) == "xfs"
    assert homes.file_system_of(Path("/homework"), table) == "ext4"
    assert homes.file_system_of(Path("/mnt/remote"), table) == "fuse.sshfs"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "fuse.sshfs"])
def test_a_home_on_a_network_file_system_is_refused_with_the_fix(home, tmp_path, kind):
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 8:1 / / rw - {kind} server:/ rw\n")
    with pytest.raises(InvalidArgument, match="network file system") as refused:
        homes.prepare_home(home, table)
    assert "RUNYARD_HOME" in refused.value.hint


def test_a_full_disk_is_refused_clearly(home, monkeypatch):
    monkeypatch.setattr(homes, "MIN_FREE_BYTES", 2**62)
    with pytest.raises(StorageFull, match="MB left"):
        homes.require_space(home)


@as_a_program
def test_a_disk_without_a_byte_left_is_named_by_the_command_line_and_by_the_sdk(tmp_path):
    with mounted(tmp_path / "small", megabytes=2) as disk:
        home = disk / "home"
        homes.prepare_home(home)
        with suppress(OSError):
            (disk / "filling").write_bytes(bytes(4 << 20))
        with pytest.raises(StorageFull, match="has 0 MB left"):
            start_service(home, keep=False)
        with pytest.raises(ServiceUnavailable, match="is full") as refused:
            ensure(str(home), lambda: None)
    assert "RUNYARD_HOME" in str(refused.value)


def test_elsewhere_than_on_linux_there_is_one_clear_error():
    with pytest.raises(RunyardError, match="needs Linux; this is darwin"):
        homes.require_linux("darwin")


def test_a_home_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot be made"):
        start_service(tmp_path / "file", keep=False)


def test_stopping_sends_an_idle_agent_home(home):
    start_service(home, keep=True)
    LocalEngine(home).warm()
    opened = os.pidfd_open(ask_agent(home, {"op": "status"})["pid"])
    assert stop_service(home)
    _wait_for_end(opened)


def start_a_service(home):
    return start_service(home, keep=True)["pid"]


def start_an_agent(home):
    LocalEngine(home).warm()
    return ask_agent(home, {"op": "status"})["pid"]


@as_a_program
@pytest.mark.parametrize("start", [start_a_service, start_an_agent])
def test_what_a_scoring_script_starts_is_not_known_as_its_worker(home, monkeypatch, start):
    """It would end with the web service, and all runs with it."""
    for name in WORKER_VARIABLES:
        monkeypatch.setenv(name, "of-a-worker")
    pid = start(home)
    assert b"of-a-worker" not in Path(f"/proc/{pid}/environ").read_bytes()
