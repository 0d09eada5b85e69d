"""Data at web addresses in whole runs: mounted by a process of its own, or fetched."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.core.records.data import DataForAttempt, DatasetFiles, NetworkRules, SourceFile, StoreAccess
from runyard.node.home_socket import ask_agent
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import driver_log, is_running, pid_from
from tests.node.data.conftest import dataset, node_log, run
from tests.node.data.web_server import WebServer

pytestmark = pytest.mark.slow

BIG = os.urandom(1 << 20) * 20
READS = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"
READS_WHEN_TOLD = """
import os, sys, time
print('script=%d' % os.getpid(), flush=True)
while not os.path.exists('go'): time.sleep(0.01)
if sys.argv[2] == 'reads': open(sys.argv[1], 'rb').read()
"""


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer()
    server.pages = {"/a.gz": b"first", "/b/b.gz": b"second", "/big": BIG}
    yield server
    server.close()


@pytest.fixture
def web(service, server):
    """Let runs find these pages of the server as the dataset 'mnist'."""

    def web(*paths: str) -> None:
        files = [
            SourceFile(path.rpartition("/")[2], "", server.url + path, len(page), server.etag(path))
            for path in paths
            if (page := server.pages[path]) is not None
        ]
        found = DatasetFiles(files, is_one_file=len(files) == 1)
        rules = NetworkRules(silence_seconds=5, retry_seconds=1)
        service.data = DataForAttempt({"mnist": found}, {"": StoreAccess("web", "")}, rules)

    return web


def mount_process(home: Path) -> int:
    state = TaskFolder(home, "run1.1").read("data.json")
    return state["mount_process"]["pid"]


def maps_folder(pid: str, folder: Path) -> bool:
    """Whether a process has a file of the folder open."""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(str(folder)) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def let_go(home: Path) -> None:
    (TaskFolder(home, "run1.1").work / "go").touch()


def test_one_address_that_is_mounted_is_given_as_the_file(submit, service, web, home):
    web("/a.gz")
    item = dataset()
    assert run(submit, service, "import sys; print(sys.argv[1], open(sys.argv[1]).read())", item)["warnings"] == []
    assert driver_log(service) == f"{home}/mounts/run1.1/mnist/a.gz first\n"
    assert not (home / "mounts/run1.1").exists()


def test_several_addresses_are_files_of_one_folder(submit, service, web):
    web("/a.gz", "/b/b.gz")
    run(submit, service, "import os, sys; print(sorted(os.listdir(sys.argv[1])))", dataset())
    assert driver_log(service) == "['a.gz', 'b.gz']\n"


def test_a_second_run_reads_what_the_first_has_brought(submit, service, web, server):
    web("/big")
    run(submit, service, READS, dataset())
    asked = len(server.asked)
    submit(READS, dataset().placeholder, data=(dataset(),), attempt_id="run2.1")
    assert service.ended("run2.1")["outcome"] == "completed"
    assert len(server.asked) == asked


def test_a_mounted_address_cannot_be_written_to(submit, service, web):
    web("/a.gz")
    ended = run(submit, service, "import sys; open(sys.argv[1], 'w')", dataset())
    assert "Read-only file system" in ended["error"]["message"]


def test_a_downloaded_address_is_a_file_of_the_script(submit, service, web, home):
    web("/a.gz")
    script = "import os, sys; print(sys.argv[1]); open(sys.argv[1] + '/a.gz', 'a').write(' and mine')"
    assert run(submit, service, script, dataset(mode="download"))["outcome"] == "completed"
    assert driver_log(service) == f"{home}/scripts/run1.1/data/mnist\n"


def test_a_long_download_is_told_on_the_run(submit, service, web, server):
    web("/big")
    server.gates["/big"] = threading.Event()
    submit("pass", data=(dataset(mode="download"),))
    service.wait_for(lambda: server.was_asked.is_set())
    threading.Timer(1.5, server.gates["/big"].set).start()
    assert service.ended()["outcome"] == "completed"
    messages = [report["message"] for report in service.reports if report["state"] == "preparing"]
    assert messages[0] == "Fetching data."
    assert any(message.startswith("Fetching data: ") and " of 21.0 MB" in message for message in messages[1:])


def test_an_address_that_is_gone_fails_the_run_and_is_named(submit, service, web, server):
    web("/a.gz")
    server.answers["/a.gz"] = 404
    ended = run(submit, service, "pass", dataset(mode="download"))
    assert (ended["outcome"], ended["phase"]) == ("failed", "Preparing")
    assert "Data input 'mnist'" in ended["error"]["message"]
    assert f"{server.url}/a.gz" in ended["error"]["message"]


def test_a_source_that_changed_after_it_was_listed_is_not_taken(submit, service, web, server):
    web("/a.gz")
    server.pages["/a.gz"] = b"other"
    assert run(submit, service, "pass", dataset(mode="download"))["outcome"] == "failed"


def test_a_download_that_fails_takes_the_mounts_before_it_along(submit, service, web, server, home):
    web("/a.gz")
    server.pages["/gone"] = b"x"
    gone = SourceFile("gone", "", f"{server.url}/gone", 1, server.etag("/gone"))
    found = {**service.data.datasets, "gone": DatasetFiles([gone], is_one_file=True)}
    service.data = DataForAttempt(found, service.data.stores, service.data.network)
    server.answers["/gone"] = 404
    assert run(submit, service, "pass", dataset(), dataset("gone", "download"))["outcome"] == "failed"
    service.wait_for(lambda: not (home / "attempts/run1.1").exists())
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if maps_folder(pid, home / "data-cache")]


def test_a_cancel_ends_a_download_that_hangs(submit, service, web, server, engine, home):
    web("/big")
    server.gates["/big"] = threading.Event()
    ticket = submit("pass", data=(dataset(mode="download"),))
    service.wait_for(lambda: server.was_asked.is_set())
    engine.cancel(ticket, grace=timedelta(seconds=0.2))
    assert (service.ended()["outcome"], service.ended()["phase"]) == ("canceled", "Preparing")
    service.wait_for(lambda: not (home / "attempts/run1.1").exists())


def test_a_cancel_ends_a_script_that_waits_for_a_mounts_server(submit, service, web, server, engine, home):
    web("/big")
    server.gates["/big"] = threading.Event()
    ticket = submit(READS, dataset().placeholder, data=(dataset(),))
    service.wait_for(lambda: server.was_asked.is_set())
    process = mount_process(home)
    engine.cancel(ticket, grace=timedelta(seconds=0.2))
    assert service.ended(seconds=60)["outcome"] == "canceled"
    assert not is_running(process)


def test_a_mount_process_that_is_killed_is_named_when_the_script_fails(submit, service, web, home):
    web("/big")
    submit(READS_WHEN_TOLD, dataset().placeholder, "reads", data=(dataset(),))
    pid_from(service, "script")
    os.kill(mount_process(home), signal.SIGKILL)
    let_go(home)
    message = service.ended()["error"]["message"]
    assert "not connected" in message or "connection abort" in message
    assert "served the mounts of mnist died while the script was running (killed by signal 9 (SIGKILL))" in message


def test_a_mount_process_that_is_killed_is_a_warning_when_the_script_ends_well(submit, service, web, home):
    web("/big")
    submit(READS_WHEN_TOLD, dataset().placeholder, "does not", data=(dataset(),))
    pid_from(service, "script")
    os.kill(mount_process(home), signal.SIGKILL)
    let_go(home)
    ended = service.ended()
    assert ended["outcome"] == "completed"
    assert any("mounts of mnist died" in warning for warning in ended["warnings"])


def test_a_script_whose_supervisor_is_killed_keeps_its_mounts_and_leaves_none(submit, service, web, home):
    web("/big")
    submit(READS_WHEN_TOLD, dataset().placeholder, "reads", data=(dataset(),))
    pid_from(service, "script")
    service.wait_for(lambda: service.report("running"))
    process = mount_process(home)
    os.kill(TaskFolder(home, "run1.1").supervisor().pid, signal.SIGKILL)
    service.wait_for(lambda: [report["state"] for report in service.reports].count("running") == 2)
    let_go(home)
    ended = service.ended()
    assert (ended["outcome"], ended["error"], ended["warnings"]) == ("completed", None, [])
    assert not is_running(process)
    service.wait_for(lambda: not (home / "attempts/run1.1").exists())
    assert not (home / "mounts/run1.1").exists()


def test_a_script_that_lost_supervisor_and_mounts_is_ended(submit, service, web, home):
    web("/big")
    submit(READS_WHEN_TOLD, dataset().placeholder, "reads", data=(dataset(),))
    script = pid_from(service, "script")
    process = mount_process(home)
    os.kill(process, signal.SIGKILL)
    os.kill(TaskFolder(home, "run1.1").supervisor().pid, signal.SIGKILL)
    ended = service.ended()
    assert "supervisor was killed while the script was running" in ended["error"]["message"]
    assert "mounts of mnist died while the script was running" in ended["error"]["message"]
    assert not is_running(script)
    assert not is_running(process)
    service.wait_for(lambda: not (home / "attempts/run1.1").exists())
    assert not (home / "mounts/run1.1").exists()


def test_a_supervisor_killed_while_data_is_fetched_is_followed_by_one_that_starts_over(
    submit, service, web, server, home
):
    web("/big")
    server.gates["/big"] = threading.Event()
    item = dataset(mode="download")
    submit(READS, f"{item.placeholder}/big", data=(item,))
    service.wait_for(lambda: server.was_asked.is_set())
    os.kill(TaskFolder(home, "run1.1").supervisor().pid, signal.SIGKILL)
    server.gates["/big"].set()
    assert service.ended()["outcome"] == "completed"


WITHOUT_FUSE = """
import sys
from pathlib import Path
from runyard.data.fuse import kernel
assert kernel.unshare_mounts()
kernel.bind(Path("/dev/null"), Path("/dev/fuse"), read_only=False)
from runyard.node.agent import main
sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.fixture
def agent_without_fuse(home) -> Iterator[None]:
    is_ready, told = os.pipe()
    agent = subprocess.Popen([sys.executable, "-c", WITHOUT_FUSE, str(home), str(told)], pass_fds=(told,))
    os.close(told)
    assert os.read(is_ready, 1) == b"1"
    os.close(is_ready)
    yield
    ask_agent(home, {"op": "exit"})
    agent.wait()


@pytest.mark.needs("mount namespace")
def test_where_fuse_is_missing_data_is_downloaded_and_that_is_said_once(agent_without_fuse, submit, service, web):
    web("/a.gz", "/b/b.gz")
    ended = run(submit, service, "import sys; print(open(sys.argv[1] + '/a.gz').read())", dataset())
    assert driver_log(service) == "first\n"
    (warning,) = ended["warnings"]
    assert warning.endswith("So this data is downloaded instead of mounted: mnist.")
    assert node_log(service).count("instead of mounted") == 1


@pytest.mark.needs("mount namespace")
def test_one_file_is_given_as_the_file_without_fuse_too(agent_without_fuse, submit, service, web):
    web("/a.gz")
    run(submit, service, "import sys; print(open(sys.argv[1]).read())", dataset())
    assert driver_log(service) == "first\n"
