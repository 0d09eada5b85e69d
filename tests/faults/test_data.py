"""Data that is gone, changed, huge or badly reached, in runs submitted as users do. Nothing stays mounted after any."""

import json
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Dataset, Datastore
from azureml.data import OutputFileDatasetConfig
from tests.faults.conftest import FULL
from tests.faults.yard import Yard, ended, eventually, is_alive, kill, message_of
from tests.mount_tables import mounted_anywhere
from tests.node.data.web_server import WebServer, Zeros

pytestmark = pytest.mark.slow

READS = "import sys; print(len(open(sys.argv[1], 'rb').read()))"
MANY = 100_000 if FULL else 3_000
HUGE = 10 << 30
READS_SLOWLY = """
import os, sys, time
with open(sys.argv[1], 'rb') as file:
    file.read(1000)
    open(sys.argv[2] + '/reading', 'w').close()
    while not os.path.exists(sys.argv[2] + '/go'): time.sleep(0.01)
    file.seek(-1000, 2)
    print(len(file.read()))
"""


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer()
    server.pages["/a.bin"] = os.urandom(20 << 20)
    yield server
    server.close()


@pytest.fixture
def data(yard: Yard, server: WebServer):
    """The server's page as a registered dataset."""
    return Dataset.File.from_files(f"{server.url}/a.bin").register(yard.workspace, "a", create_new_version=True)


@pytest.fixture(autouse=True)
def nothing_stays_mounted(tmp_path: Path) -> Iterator[None]:
    yield
    assert mounted_anywhere(tmp_path) == []


def log_of(run, tmp_path: Path) -> str:
    run.download_file("azureml-logs/70_driver_log.txt", str(tmp_path / "log"))
    return (tmp_path / "log").read_text()


@pytest.mark.parametrize("status", [404, 500] if FULL else [404])  # a server in trouble is asked again for a minute
@pytest.mark.parametrize("mode", ["as_mount", "as_download"])
def test_an_address_that_fails_at_run_start_is_named(yard: Yard, server, data, status: int, mode: str) -> None:
    server.answers["/a.bin"] = status
    run = yard.finish(READS, arguments=(getattr(data.as_named_input("a"), mode)(),))
    assert run.get_status() == "Failed"
    assert "Data input 'a'" in message_of(run)
    assert f"{server.url}/a.bin" in message_of(run)
    assert str(status) in message_of(run)


@pytest.mark.parametrize("mode", ["as_mount", "as_download"])
def test_a_redirect_loop_at_run_start_ends_and_is_named(yard: Yard, server, data, mode: str) -> None:
    server.redirects["/a.bin"] = "/a.bin"
    run = yard.finish(READS, arguments=(getattr(data.as_named_input("a"), mode)(),))
    assert run.get_status() == "Failed"
    assert f"{server.url}/a.bin" in message_of(run)
    assert "redirect" in message_of(run)


@pytest.mark.parametrize("times", [2, math.inf] if FULL else [2])  # a server in trouble is asked again for a minute
@pytest.mark.parametrize("mode", ["as_mount", "as_download"])
def test_half_a_body_is_never_taken_for_whole(yard: Yard, server, data, tmp_path, mode: str, times: float) -> None:
    server.cuts["/a.bin"] = times
    folder_or_file = "import os, sys, glob\nwhole = glob.glob(sys.argv[1] + '/*') or sys.argv[1:]\n"
    script = f"{folder_or_file}print(len(open(whole[0], 'rb').read()))"
    run = yard.finish(script, arguments=(getattr(data.as_named_input("a"), mode)(),))
    if times == 2:
        assert log_of(run, tmp_path) == f"{len(server.pages['/a.bin'])}\n"
    else:
        assert run.get_status() == "Failed"


def test_a_source_that_changed_since_its_version_was_made_is_reported(yard: Yard, server, data, tmp_path) -> None:
    server.pages["/a.bin"] = b"other"
    run = yard.finish(READS, arguments=(data.as_named_input("a").as_mount(),))
    assert run.get_status() == "Completed"
    head, last = log_of(run, tmp_path).splitlines()
    assert "'a'" in head
    assert "a.bin" in head
    assert last == "5"
    assert [warning["message"] for warning in run.get_details()["warnings"]] == [head]


def test_wrong_credentials_are_named_and_not_told(yard: Yard, server) -> None:
    Datastore.register_azure_blob_container(
        yard.workspace,
        "far",
        "container",
        "account",
        account_key="aHVzaC1odXNo",
        endpoint=server.url,
        skip_validation=True,
    )
    server.answers["/"] = 403
    run = yard.finish("pass", arguments=(Datastore.get(yard.workspace, "far").path("x").as_download(),))
    assert run.get_status() == "Failed"
    assert "far" in message_of(run) or "container" in message_of(run)
    assert "aHVzaC1odXNo" not in str(run.get_details())


def test_a_server_that_goes_away_during_a_read_and_comes_back_costs_nothing(yard, server, data, tmp_path) -> None:
    run = yard.submit(READS_SLOWLY, arguments=(data.as_named_input("a").as_mount(), tmp_path))
    eventually((tmp_path / "reading").exists, "the first read")
    server.answers["/a.bin"] = 503
    (tmp_path / "go").touch()
    threading.Timer(2, lambda: server.answers.pop("/a.bin")).start()
    assert ended(run).get_status() == "Completed"
    assert log_of(run, tmp_path) == "1000\n"


@pytest.mark.parametrize("victim", ["mount process", "supervisor", "agent", "service"])
def test_a_kill_while_a_script_reads_a_mount_leaves_nothing(yard, server, data, tmp_path, victim: str) -> None:
    run = yard.submit(READS_SLOWLY, arguments=(data.as_named_input("a").as_mount(), tmp_path))
    eventually((tmp_path / "reading").exists, "the first read")
    mounting = mount_process_of(yard, run)
    if victim == "mount process":
        kill(mounting)
    else:
        yard.kill(victim, run)
    (tmp_path / "go").touch()
    yard.restart()
    assert ended(run).get_status() == ("Failed" if victim == "mount process" else "Completed")
    if victim == "mount process":
        assert "mounts of a died while the script was running" in message_of(run)
    eventually(lambda: not is_alive(mounting), "the end of the mount process", 10)
    eventually(lambda: not list((yard.home / "mounts").glob("*/*")), "the end of the mount points", 10)


def mount_process_of(yard: Yard, run) -> int:
    (state,) = yard.home.glob(f"attempts/{run.id}.*/data.json")
    return int(json.loads(state.read_text())["mount_process"]["pid"])


def test_many_small_files_are_mounted_chosen_and_downloaded(yard: Yard, tmp_path: Path) -> None:
    store = yard.workspace.get_default_datastore()
    folder = yard.home / "datastores/faults/workspaceblobstore/many"
    for number in range(MANY):
        file = folder / str(number % 100) / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    whole, chosen = Dataset.File.from_files((store, "many")), Dataset.File.from_files((store, "many/**/*7.txt"))
    script = "import os, sys; print([sum(len(names) for _, _, names in os.walk(root)) for root in sys.argv[1:]])"
    inputs = (
        whole.as_named_input("whole").as_mount(),
        chosen.as_named_input("chosen").as_mount(),
        chosen.as_named_input("fetched").as_download(),
    )
    run = yard.finish(script, arguments=inputs)
    assert log_of(run, tmp_path) == f"[{MANY}, {MANY // 10}, {MANY // 10}]\n"


def test_a_huge_file_is_read_where_it_is_read_alone(yard: Yard, server: WebServer, tmp_path: Path) -> None:
    server.pages["/huge"] = Zeros(HUGE)
    data = Dataset.File.from_files(f"{server.url}/huge").as_named_input("huge").as_mount()
    script = (
        "import os, sys\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    first = file.read(10); file.seek(5 << 30); print(os.path.getsize(sys.argv[1]), first + file.read(10))\n"
    )
    run = yard.finish(script, arguments=(data,))
    assert log_of(run, tmp_path) == f"{HUGE} {bytes(20)}\n"


def test_what_a_script_writes_to_an_output_is_a_dataset_afterwards(yard: Yard) -> None:
    store = yard.workspace.get_default_datastore()
    out = OutputFileDatasetConfig("made", (store, "made/here")).register_on_complete("made")
    script = "import os, sys; open(os.path.join(sys.argv[1], 'model'), 'w').write('abc')"
    assert yard.finish(script, arguments=(out,)).get_status() == "Completed"
    assert Dataset.get_by_name(yard.workspace, "made").to_path() == ["/model"]
