import json
import os
import signal
from pathlib import Path

import pytest

from runyard.core.records.launch_plan import PortRequest
from runyard.node.processes.procfs import descendants
from tests.node.conftest import a_rank, is_running
from tests.node.test_parts import SLEEPS, parts, pid_of_rank

REACHES_THE_SERVICE = """
import os, socket, sys, time
from urllib.parse import urlsplit
place = urlsplit(os.environ['RUNYARD_URL'])
print('pid=%d' % os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
for _ in range(500):
    try:
        socket.create_connection((place.hostname, place.port), 1).close()
        break
    except OSError:
        time.sleep(0.02)
else:
    sys.exit('cut off')
"""


def test_a_killed_supervisor_is_told_with_the_rank_and_the_last_lines_of_its_own_node(submit_to_nodes, service, home):
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1), a_rank(2)])
    pids = [pid_of_rank(service, rank) for rank in range(3)]
    os.kill(parts(home, 2)[1].supervisor().pid, signal.SIGKILL)
    first, second = service.all_ended(2)
    assert (second["rank"], second["log"]) == (1, "azureml-logs/70_driver_log_1.txt")
    assert second["tail"] == f"pid={pids[1]}"
    assert (first["error"], first["rank"]) == (None, None)


def test_a_killed_supervisor_leaves_no_ports_behind(submit_to_nodes, service, home):
    wishes = ((PortRequest("first", 24222),), (PortRequest("second", 24222),))
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1)], ports=wishes)
    for rank in range(2):
        pid_of_rank(service, rank)
    os.kill(parts(home, 2)[0].supervisor().pid, signal.SIGKILL)
    service.all_ended(2)
    service.wait_for(lambda: not parts(home, 2)[0].root.exists())
    assert not (home / "ports" / "run1.1").exists()


def test_what_no_process_can_be_started_with_is_told_as_the_nodes_failure(submit_to_nodes, service):
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1, BAD="a\0b")])
    first, second = service.all_ended(2)
    assert (second["outcome"], second["lost"], second["rank"]) == ("failed", False, None)
    assert second["error"]["message"] == "The node supervisor failed: ValueError: embedded null byte."
    assert (first["outcome"], first["error"]) == ("failed", None)


@pytest.mark.needs("private network")
def test_a_run_whose_pasta_is_killed_reaches_the_service_again(submit_to_nodes, service, home, tmp_path):
    go, env = tmp_path / "go", {"RUNYARD_URL": json.loads((home / "service.json").read_text())["url"]}
    submit_to_nodes(REACHES_THE_SERVICE, [a_rank(0, str(go), **env)], [a_rank(1, str(go), **env)])
    for rank in range(2):
        pid_of_rank(service, rank)
    below = {one.pid for one in descendants(parts(home, 2)[0].supervisor().pid)}
    [pasta] = [pid for pid in below if Path(f"/proc/{pid}/comm").read_text().startswith("pas")]
    os.kill(pasta, signal.SIGKILL)
    service.wait_for(lambda: not is_running(pasta))
    go.touch()
    assert [report["outcome"] for report in service.all_ended(2)] == ["completed"] * 2
