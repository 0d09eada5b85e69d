import os
import signal
import subprocess
from datetime import timedelta

import pytest

from runyard.core.ports.engine import NodeTaskPhase, ObservedTask
from runyard.core.records.launch_plan import NodePlan, PortRequest
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import a_rank, is_running, pid_from, rank_log

pytestmark = pytest.mark.slow

TELLS_WHERE = """
import os, socket
print('cwd', os.getcwd(), 'port', os.environ.get('PORT'), 'rank', os.environ['RUNYARD_RANK'], flush=True)
"""
SLEEPS = """
import os, time
print('pid=%d' % os.getpid(), flush=True)
time.sleep(600)
"""
UPLOADS = """
import os
folder = os.environ['RUNYARD_UPLOADS'] + '/run1/'
os.makedirs(folder, exist_ok=True)
open(folder + 'large', 'w').write('x')
"""
BY_RANK = """
import os, sys, time
rank = os.environ['RUNYARD_RANK']
print('pid=%d' % os.getpid(), flush=True)
if rank in sys.argv[2:]:
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    raise ValueError('rank %s is unwell' % rank)
time.sleep(600)
"""


def pid_of_rank(service, rank: int) -> int:
    return pid_from(service, "pid", lambda: rank_log(service, rank))


def parts(home, count: int) -> list[TaskFolder]:
    return [TaskFolder(home, "run1.1" if node == 0 else f"run1.1-{node}") for node in range(count)]


def test_every_node_runs_its_share_in_a_folder_of_its_own(submit_to_nodes, service, home):
    submit_to_nodes(TELLS_WHERE, [a_rank(0)], [a_rank(1)], [a_rank(2), a_rank(3)])
    ended = service.all_ended(3)
    assert [report["outcome"] for report in ended] == ["completed"] * 3
    folders = {rank_log(service, rank).split()[1] for rank in range(4)}
    assert folders == {str(folder.work) for folder in parts(home, 3)}
    service.wait_for(lambda: not any(folder.root.exists() for folder in parts(home, 3)))


def test_nodes_start_only_when_all_are_ready_and_know_each_others_ports(submit_to_nodes, service):
    wishes = ((PortRequest("first", 24222),), (PortRequest("second", 24222),))
    submit_to_nodes(TELLS_WHERE, [a_rank(0, PORT="<port:1:second>")], [a_rank(1, PORT="<port:0:first>")], ports=wishes)
    service.all_ended(2)
    ready = [service.report("ready", node=node) for node in range(2)]
    assert rank_log(service, 0).split()[3] == str(ready[1]["ports"]["second"])
    assert rank_log(service, 1).split()[3] == str(ready[0]["ports"]["first"])
    assert ready[0]["ports"]["first"] != ready[1]["ports"]["second"]
    states = [(report["state"], report["node"]) for report in service.reports]
    assert max(states.index(("ready", 0)), states.index(("ready", 1))) < states.index(("running", 0))


def test_a_single_process_gets_the_port_that_it_is_to_bind(submit_to_nodes, service):
    submit_to_nodes(TELLS_WHERE, [a_rank(0, PORT="<port:0:first>")], ports=((PortRequest("first", 24222),),))
    service.all_ended(1)
    assert rank_log(service, 0).split()[3].isdigit()


def test_the_rank_that_fails_is_named_and_the_others_are_ended(submit_to_nodes, service, tmp_path):
    go = tmp_path / "go"
    submit_to_nodes(BY_RANK, [a_rank(0, str(go), "1")], [a_rank(1, str(go), "1")])
    others = pid_of_rank(service, 0)
    pid_of_rank(service, 1)
    go.touch()
    first, second = service.all_ended(2)
    assert (second["outcome"], second["rank"], second["exit_code"]) == ("failed", 1, 1)
    assert second["error"]["message"] == "User program failed with ValueError: rank 1 is unwell"
    assert "rank 1 is unwell" in second["tail"]
    assert second["exits"] == {"1": [1, None]}
    assert (first["outcome"], first["error"]) == ("failed", None)
    assert not is_running(others)


def test_a_rank_that_fails_ends_the_others_before_its_node_has_delivered(submit_to_nodes, service, tmp_path):
    script = UPLOADS + BY_RANK
    service.takes_files.clear()
    go = tmp_path / "go"
    submit_to_nodes(script, [a_rank(0, str(go), "1")], [a_rank(1, str(go), "1")])
    others = pid_of_rank(service, 0)
    pid_of_rank(service, 1)
    go.touch()
    told = service.wait_for(lambda: service.report("failing", node=1))
    assert (told["outcome"], told["rank"], told["exits"]) == ("failed", 1, {"1": [1, None]})
    assert "rank 1 is unwell" in told["error"]["message"]
    service.wait_for(lambda: not is_running(others), seconds=5)
    assert service.report("ended") is None
    service.takes_files.set()
    first, second = service.all_ended(2)
    assert (first["error"], second["error"]) == (None, told["error"])
    assert service.report("failing", node=0) is None


def test_a_killed_supervisor_is_told_of_before_what_it_left_is_delivered(submit_to_nodes, service, home):
    service.takes_files.clear()
    submit_to_nodes(UPLOADS + SLEEPS, [a_rank(0)], [a_rank(1)])
    pids = [pid_of_rank(service, rank) for rank in range(2)]
    os.kill(parts(home, 2)[1].supervisor().pid, signal.SIGKILL)
    assert service.wait_for(lambda: service.report("failing", node=1))["lost"] is True
    service.wait_for(lambda: not any(map(is_running, pids)), seconds=8)
    assert service.report("ended") is None
    service.takes_files.set()
    assert [report["lost"] for report in service.all_ended(2)] == [False, True]


def test_one_failing_process_of_several_on_a_node_ends_the_others(submit_to_nodes, service, tmp_path):
    go = tmp_path / "go"
    go.touch()
    submit_to_nodes(BY_RANK, [a_rank(0, str(go), "1"), a_rank(1, str(go), "1")])
    (ended,) = service.all_ended(1)
    assert (ended["outcome"], ended["rank"], ended["log"]) == ("failed", 1, "azureml-logs/70_driver_log_1.txt")
    assert not is_running(pid_of_rank(service, 0))


def test_parameter_servers_go_on_until_all_workers_have_ended(submit_to_nodes, service, tmp_path):
    script = "import os, sys, time\nif sys.argv[1] == 'ps':\n" + "\n".join("    " + x for x in SLEEPS.split("\n"))
    submit_to_nodes(script, [a_rank(0, "w"), a_rank(2, "ps", role="ps")], [a_rank(1, "w"), a_rank(3, "ps", role="ps")])
    ended = service.all_ended(2)
    assert [report["outcome"] for report in ended] == ["completed", "completed"]
    assert service.report("done", node=0)
    assert service.report("done", node=1)
    assert not is_running(pid_of_rank(service, 2))


def test_servers_of_a_single_node_end_with_its_workers(submit, service):
    script = "import sys, time\nif sys.argv[1] == 'ps': time.sleep(600)"
    submit(script, nodes=(NodePlan("127.0.0.1", (a_rank(0, "w"), a_rank(1, "ps", role="ps"))),))
    assert service.ended()["outcome"] == "completed"


def test_a_node_without_processes_waits_until_it_is_told(submit_to_nodes, service, tmp_path):
    go = tmp_path / "go"
    waits = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    submit_to_nodes(waits, [a_rank(0, str(go))], [])
    service.wait_for(lambda: service.report("done", node=1))
    assert service.report("ended") is None
    go.touch()
    first, second = service.all_ended(2)
    assert (first["outcome"], second["outcome"]) == ("completed", "completed")
    assert service.report("ready", node=1)["is_essential"] is False


def test_a_cancel_ends_every_rank_within_five_seconds(submit_to_nodes, service, engine):
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPS
    ticket = submit_to_nodes(stubborn, [a_rank(0), a_rank(1)], [a_rank(2)], cancel_grace_seconds=30)
    pids = [pid_of_rank(service, rank) for rank in range(3)]
    engine.cancel(ticket, grace=timedelta(seconds=30))
    service.wait_for(lambda: not any(map(is_running, pids)), seconds=5)
    assert [report["outcome"] for report in service.all_ended(2)] == ["canceled", "canceled"]


def test_a_cancel_before_all_nodes_are_ready_starts_nothing(submit_to_nodes, service, engine, home):
    ticket = submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1)], never_come=1)
    service.wait_for(lambda: service.report("ready", node=0) and service.report("ready", node=1))
    engine.cancel(ticket, grace=timedelta(seconds=1))
    assert [report["outcome"] for report in service.all_ended(2)] == ["canceled", "canceled"]
    assert service.report("running") is None


def test_a_killed_supervisor_fails_its_part_alone_and_the_rest_are_told(submit_to_nodes, service, home):
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1)])
    pids = [pid_of_rank(service, rank) for rank in range(2)]
    os.kill(parts(home, 2)[1].supervisor().pid, signal.SIGKILL)
    first, second = service.all_ended(2)
    assert (second["outcome"], second["lost"]) == ("failed", True)
    assert "supervisor was killed" in second["error"]["message"]
    assert (first["outcome"], first["error"]) == ("failed", None)
    assert not any(map(is_running, pids))


def test_parts_on_one_machine_do_not_end_one_another(submit_to_nodes, service, home, engine):
    ticket = submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1)])
    service.gather("run1.1", 2, lambda attempt_id, end_as: None)
    pids = [pid_of_rank(service, rank) for rank in range(2)]
    parts(home, 2)[1].request_cancel(0.5, "failed")
    service.wait_for(lambda: service.report("ended", node=1))
    assert is_running(pids[0])
    assert not is_running(pids[1])
    service.wait_for(
        lambda: (
            engine.observe([ticket])[ticket] == [ObservedTask(NodeTaskPhase.ALIVE), ObservedTask(NodeTaskPhase.LOST)]
        )
    )


def test_nodes_of_one_machine_share_their_outputs_and_none_is_lost(submit_to_nodes, service):
    script = """
import os, time
if os.environ['RUNYARD_RANK'] == '0':
    open('outputs/whole', 'w').write('from 0')
else:
    while not os.path.exists('outputs/whole'):
        time.sleep(0.01)
    time.sleep(0.3)  # rank 0 has ended by now
    open('outputs/late', 'w').write('from 1 after ' + open('outputs/whole').read())
"""
    submit_to_nodes(script, [a_rank(0)], [a_rank(1)])
    assert [report["outcome"] for report in service.all_ended(2)] == ["completed"] * 2
    assert service.files["outputs/late"] == b"from 1 after from 0"
    assert service.files["outputs/whole"] == b"from 0"


def test_logs_of_the_same_name_on_two_nodes_stay_apart(submit_to_nodes, service):
    script = """
import os
open('logs/train.txt', 'w').write('rank ' + os.environ['RUNYARD_RANK'])
open('outputs/of-' + os.environ['RUNYARD_RANK'], 'w').write('x')
"""
    submit_to_nodes(script, [a_rank(0)], [a_rank(1)])
    service.all_ended(2)
    assert service.logs["logs/train.txt"] == b"rank 0"
    assert service.logs["logs/node_1/train.txt"] == b"rank 1"
    assert set(service.files) == {"outputs/of-0", "outputs/of-1"}


@pytest.mark.parametrize("state", ["running", "ready"])
def test_an_attempt_that_is_over_ends_its_processes_and_leaves_nothing(submit_to_nodes, service, home, state):
    submit_to_nodes(SLEEPS, [a_rank(0)], [a_rank(1)], never_come=int(state == "ready"))
    service.wait_for(lambda: service.report(state, node=0) and service.report(state, node=1))
    pids = [] if state == "ready" else [pid_of_rank(service, rank) for rank in range(2)]
    service.is_over = True
    for folder in parts(home, 2):
        (folder.journals / "run1~0-1-a.jsonl").write_text("[1]\n")
    service.wait_for(lambda: not any(folder.root.exists() for folder in parts(home, 2)))
    assert not any(map(is_running, pids))
    assert service.journals == {}


def test_a_run_of_the_same_name_in_another_home_is_left_alone(submit, service, home, tmp_path, engine):
    variables = {**os.environ, "RUNYARD_PART": "run1.1", "RUNYARD_HOME": str(tmp_path / "another")}
    with subprocess.Popen(["sleep", "600"], env=variables) as namesake:
        ticket = submit(SLEEPS)
        service.wait_for(lambda: service.report("running"))
        engine.cancel(ticket, grace=timedelta(seconds=0))
        service.ended()
        assert namesake.poll() is None
        namesake.kill()
