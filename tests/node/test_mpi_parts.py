"""A launcher on the first node, ranks on all of them: real mpirun, real daemons, through real supervisors."""

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.ports.engine import ticket_for
from runyard.core.records.assets import Workspace
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.runs import AttemptId
from runyard.runs.launch.layout import AttemptResources
from runyard.runs.launch.mpi import mpi_layout
from runyard.runs.launch.variables import RunContext
from tests.node.conftest import a_plan, is_running, pid_from, rank_log

pytestmark = pytest.mark.slow

TELLS_RANK = """
import os
print('rank', os.environ['OMPI_COMM_WORLD_RANK'], 'of', os.environ['OMPI_COMM_WORLD_SIZE'], os.getcwd(), flush=True)
open(os.environ['RUNYARD_JOURNALS'] + '/run1~%s-1-a.jsonl' % os.environ['RUNYARD_RANK'], 'w').write('[1]\\n')
"""
SLEEPS = """
import os, time
print('pid=%d' % os.getpid(), flush=True)
while not (os.environ['RUNYARD_RANK'] == '1' and os.path.exists(GO)):
    time.sleep(0.01)
raise ValueError('rank 1 is unwell')
"""


@pytest.fixture
def submit_mpi(engine, service):
    def submit(script: str, node_count: int = 2, per_node: int = 1, **fields):
        definition = {
            "script": "train.py",
            "communicator": "Mpi",
            "framework": "Python",
            "nodeCount": node_count,
            "mpi": {"processCountPerNode": per_node, "nodeCount": node_count},
        }
        workspace = Workspace("default", "id", "subscription", "group", "local", datetime.now(UTC))
        found = AttemptResources(
            AttemptId("run1.1"),
            RunContext(workspace, "experiment", "http://127.0.0.1", "token"),
            "token",
            EnvironmentSpec(),
            addresses=tuple(f"127.0.9.{node + 1}" for node in range(node_count)),
            names=tuple(f"cluster-{node}" for node in range(node_count)),
        )
        plan = a_plan(service, script, nodes=mpi_layout(RunDefinition(definition), found), secret="s3cret", **fields)

        def stop(attempt_id: str, end_as: str) -> None:
            engine.cancel(ticket_for(attempt_id, node_count), grace=timedelta(seconds=3), end_as=end_as)

        service.gather("run1.1", node_count, stop)
        return engine.submit(plan)

    return submit


def pids_of_ranks(service, count: int) -> list[int]:
    return [pid_from(service, "pid", lambda rank=rank: rank_log(service, rank)) for rank in range(count)]


def launcher_pid(service) -> int:
    return service.wait_for(lambda: service.report("running", node=0))["pid"]


@pytest.mark.needs("mpi")
def test_the_ranks_of_two_nodes_run_each_where_it_belongs(submit_mpi, service):
    submit_mpi(TELLS_RANK, per_node=2)
    assert [report["outcome"] for report in service.all_ended(2)] == ["completed", "completed"]
    for rank in range(4):
        folder = "run1.1" if rank < 2 else "run1.1-1"
        words = rank_log(service, rank).split()
        assert words[:4] == ["rank", str(rank), "of", "4"]
        assert Path(words[4]).parent.name == folder
    assert sorted(service.journals) == [f"run1~{rank}-1-a" for rank in range(4)]


@pytest.mark.needs("mpi")
def test_ranks_of_one_node_need_no_launch_server(submit_mpi, service):
    submit_mpi(TELLS_RANK, node_count=1, per_node=2)
    assert service.all_ended(1)[0]["outcome"] == "completed"
    assert "rank 1 of 2" in rank_log(service, 1)


@pytest.mark.needs("mpi")
def test_the_rank_that_fails_on_another_node_is_blamed(submit_mpi, service, tmp_path):
    submit_mpi(SLEEPS.replace("GO", repr(str(tmp_path / "go"))))
    pids = pids_of_ranks(service, 2)
    (tmp_path / "go").touch()
    first, second = service.all_ended(2)
    assert (first["outcome"], first["rank"], first["failed_node"], first["exit_code"]) == ("failed", 1, 1, 1)
    assert first["log"] == "azureml-logs/70_driver_log_1.txt"
    assert second["last_lines"]["1"]["raised"] == "ValueError: rank 1 is unwell"
    assert second["error"] is None
    assert not any(map(is_running, pids))


@pytest.mark.needs("mpi")
def test_a_killed_rank_is_blamed_with_its_signal(submit_mpi, service, tmp_path):
    submit_mpi(SLEEPS.replace("GO", repr(str(tmp_path / "go"))))
    pids = pids_of_ranks(service, 2)
    os.kill(pids[0], signal.SIGKILL)
    first, _ = service.all_ended(2)
    assert (first["outcome"], first["rank"], first["signal"]) == ("failed", 0, signal.SIGKILL)
    assert first["exit_code"] == 128 + signal.SIGKILL
    assert not is_running(pids[1])


@pytest.mark.needs("mpi")
def test_a_killed_launcher_fails_the_run_and_leaves_no_rank(submit_mpi, service, tmp_path):
    submit_mpi(SLEEPS.replace("GO", repr(str(tmp_path / "go"))))
    pids = pids_of_ranks(service, 2)
    os.kill(launcher_pid(service), signal.SIGKILL)
    first, _ = service.all_ended(2)
    assert first["outcome"] == "failed"
    assert "mpirun, failed: killed by signal 9 (SIGKILL)" in first["error"]["message"]
    assert not any(map(is_running, pids))


@pytest.mark.needs("mpi")
def test_a_killed_daemon_fails_the_run_and_leaves_no_rank(submit_mpi, service, tmp_path):
    submit_mpi(SLEEPS.replace("GO", repr(str(tmp_path / "go"))))
    pids = pids_of_ranks(service, 2)
    daemon = int(Path(f"/proc/{pids[1]}/stat").read_text().rpartition(")")[2].split()[1])
    assert "orted" in Path(f"/proc/{daemon}/comm").read_text()
    os.kill(daemon, signal.SIGKILL)
    outcomes = [report["outcome"] for report in service.all_ended(2)]
    assert outcomes == ["failed", "failed"]
    assert not any(map(is_running, pids))


@pytest.mark.needs("mpi")
def test_a_cancel_ends_the_ranks_of_every_node(submit_mpi, service, engine, tmp_path):
    ticket = submit_mpi(SLEEPS.replace("GO", repr(str(tmp_path / "go"))))
    pids = pids_of_ranks(service, 2)
    engine.cancel(ticket, grace=timedelta(seconds=30))
    service.wait_for(lambda: not any(map(is_running, pids)), seconds=5)
    assert [report["outcome"] for report in service.all_ended(2)] == ["canceled", "canceled"]


def test_a_node_without_open_mpi_says_what_to_install(submit_mpi, service):
    submit_mpi(TELLS_RANK, env={"PATH": "/nonexistent"})
    ended = service.all_ended(2)
    assert "apt-get install openmpi-bin" in ended[0]["error"]["message"]


@pytest.mark.needs("mpi")
def test_ranks_that_hang_on_every_node_leave_their_stacks(submit_mpi, service):
    submit_mpi("import time\ndef waits_for_ever():\n    time.sleep(600)\nwaits_for_ever()\n", max_seconds=4)
    ended = service.all_ended(2)
    assert [report["outcome"] for report in ended] == ["canceled", "canceled"]
    for rank in range(2):
        assert "waits_for_ever (train.py:3)" in rank_log(service, rank)
