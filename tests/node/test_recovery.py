import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from runyard.compute.local.kind import LocalEngine
from runyard.core.plan_json import plan_to_json
from runyard.core.ports.engine import NodeTaskPhase, ObservedTask
from runyard.node.home_socket import ask_agent
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import a_plan, driver_log, is_running, pid_from

pytestmark = pytest.mark.slow

WAITS_FOR_FILE = """
import os, time
print('script=%d' % os.getpid(), flush=True)
open(os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl', 'a').write('[1]\\n')
while not os.path.exists('go'): time.sleep(0.01)
open(os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl', 'a').write('[2]\\n')
open('outputs/end', 'w').write('x')
print('done')
"""


def let_go(home) -> None:
    (TaskFolder(home, "run1.1").work / "go").touch()


def supervisor_pid(home) -> int:
    supervisor = TaskFolder(home, "run1.1").supervisor()
    assert supervisor is not None
    return supervisor.pid


def keeper_pid(home) -> int:
    return TaskFolder(home, "run1.1").read("process.json")["keeper"][0]


def recover(service, engine, ticket) -> None:
    """Have a part brought to its end whose agent and supervisor are dead."""
    service.wait_for(lambda: engine.observe([ticket])[ticket] == [ObservedTask(NodeTaskPhase.LOST)])
    engine.recover(ticket, 0)


def is_followed(service) -> None:
    """Wait until a second supervisor looks after the script."""
    service.wait_for(lambda: count_running(service) == 2)


def running_script(service) -> int:
    """Pid of the script, once its supervisor has reported it."""
    pid = pid_from(service, "script")
    service.wait_for(lambda: count_running(service) == 1)
    return pid


def count_running(service) -> int:
    return [report["state"] for report in service.reports].count("running")


def test_a_script_goes_on_below_the_next_supervisor_when_its_own_is_killed(submit, service, home):
    submit(WAITS_FOR_FILE)
    script = running_script(service)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    assert is_running(script)
    let_go(home)
    ended = service.ended()
    assert (ended["outcome"], ended["exit_code"], ended["error"]) == ("completed", 0, None)
    assert service.journals["run1~0-1-a"] == b"[1]\n[2]\n"
    assert service.files["outputs/end"] == b"x"
    assert driver_log(service) == f"script={script}\ndone\n"


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("os._exit(0)", ("completed", 0, None)),
        ("os._exit(3)", ("failed", 3, "User program failed with exit code 3.")),
        ("os.kill(os.getpid(), 11)", ("failed", 139, "User program was killed by signal 11 (SIGSEGV).")),
        ("raise KeyError('x')", ("failed", 1, "User program failed with KeyError: 'x'")),
    ],
)
def test_how_a_script_ended_is_known_though_no_supervisor_was_there(submit, service, home, engine, end, expected):
    ticket = submit(f"{WAITS_FOR_FILE}\n{end}")
    script = running_script(service)
    os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    let_go(home)
    service.wait_for(lambda: not is_running(script))
    recover(service, engine, ticket)
    ended = service.ended()
    said = ended["error"] and ended["error"]["message"]
    assert (ended["outcome"], ended["exit_code"], said) == expected
    assert service.journals["run1~0-1-a"] == b"[1]\n[2]\n"
    assert service.files["outputs/end"] == b"x"


def test_a_killed_exit_keeper_costs_nothing_while_the_supervisor_lives(submit, service, home):
    submit(f"{WAITS_FOR_FILE}\nos._exit(3)")
    running_script(service)
    os.kill(keeper_pid(home), signal.SIGKILL)
    let_go(home)
    ended = service.ended()
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 3)
    assert ended["error"]["message"] == "User program failed with exit code 3."


def test_a_script_whose_supervisor_and_exit_keeper_are_killed_is_ended(submit, service, home, engine):
    ticket = submit(WAITS_FOR_FILE)
    script = running_script(service)
    keeper, supervisor = keeper_pid(home), supervisor_pid(home)
    os.kill(keeper, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    recover(service, engine, ticket)
    ended = service.ended()
    assert (ended["outcome"], ended["lost"]) == ("failed", True)
    assert "supervisor was killed while the script was running" in ended["error"]["message"]
    assert not is_running(script)


def test_an_end_that_nobody_saw_is_said_to_be_unknown(submit, service, home):
    submit(WAITS_FOR_FILE)
    script = running_script(service)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    os.kill(keeper_pid(home), signal.SIGKILL)
    ended = service.ended()
    assert (ended["outcome"], ended["lost"], ended["exit_code"]) == ("failed", True, None)
    assert "not known how the script ended" in ended["error"]["message"]
    assert not is_running(script)


def test_a_followed_script_is_canceled_with_all_that_it_started(submit, service, home, engine):
    child = "import subprocess, sys\nprint('child=%d' % subprocess.Popen(['sleep', '300'], env={}).pid, flush=True)\n"
    ticket = submit(child + WAITS_FOR_FILE)
    script, other = running_script(service), pid_from(service, "child")
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    engine.cancel(ticket, grace=timedelta(seconds=1))
    assert service.ended()["outcome"] == "canceled"
    assert not is_running(script)
    assert not is_running(other)


def test_a_supervisor_killed_while_delivering_the_end_changes_nothing_about_it(submit, service, home):
    submit(WAITS_FOR_FILE)
    running_script(service)
    service.refuses_with = 507
    let_go(home)
    folder = TaskFolder(home, "run1.1")
    service.wait_for(lambda: folder.read("result.json"))
    os.kill(supervisor_pid(home), signal.SIGKILL)
    service.refuses_with = None
    ended = service.ended()
    assert (ended["outcome"], ended["exit_code"]) == ("completed", 0)
    assert service.files["outputs/end"] == b"x"
    assert service.journals["run1~0-1-a"] == b"[1]\n[2]\n"


def test_a_killed_agent_harms_no_run(submit, service, home):
    submit(WAITS_FOR_FILE)
    running_script(service)
    os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    let_go(home)
    assert service.ended()["outcome"] == "completed"


def test_a_new_agent_looks_after_the_supervisors_of_a_killed_one(submit, service, home, engine):
    submit(WAITS_FOR_FILE)
    running_script(service)
    os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    engine.warm()
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    let_go(home)
    assert service.ended()["outcome"] == "completed"


def test_agent_and_supervisor_killed_together_are_recovered_by_the_next_agent(submit, service, home, engine):
    ticket = submit(WAITS_FOR_FILE)
    script = running_script(service)
    os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    recover(service, engine, ticket)
    let_go(home)
    assert service.ended()["outcome"] == "completed"
    assert not is_running(script)


def test_what_happens_while_the_service_is_away_is_delivered_later(submit, service, home):
    submit(WAITS_FOR_FILE)
    running_script(service)
    service.stop()
    let_go(home)
    folder = TaskFolder(home, "run1.1")
    service.wait_for(lambda: folder.read("result.json"))
    service.start()
    assert service.ended()["outcome"] == "completed"
    assert "done" in driver_log(service)
    assert service.journals["run1~0-1-a"] == b"[1]\n[2]\n"
    assert service.files["outputs/end"] == b"x"


def test_submitting_an_attempt_twice_starts_one(submit, service, home):
    submit(WAITS_FOR_FILE)
    running_script(service)
    before = supervisor_pid(home)
    submit(WAITS_FOR_FILE)
    assert supervisor_pid(home) == before
    let_go(home)
    service.ended()
    assert [report["state"] for report in service.reports].count("ended") == 1


OLD_AGENT = """
import sys
from pathlib import Path
import runyard.node.version
runyard.node.version.VERSION = "0.0.1"
from runyard.node.agent import main
sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.fixture
def old_agent(home):
    is_ready, told = os.pipe()
    agent = subprocess.Popen([sys.executable, "-c", OLD_AGENT, str(home), str(told)], pass_fds=(told,))
    os.close(told)
    assert os.read(is_ready, 1) == b"1"
    os.close(is_ready)
    yield agent
    agent.kill()
    agent.wait()


def test_an_agent_of_another_version_makes_room_and_its_supervisors_live_on(old_agent, service, home, engine):
    folder = TaskFolder(home, "run1.1")
    folder.root.mkdir(parents=True)
    folder.write("plan.json", plan_to_json(a_plan(service, WAITS_FOR_FILE)))
    ask_agent(home, {"op": "start", "part": "run1.1"})
    script = running_script(service)
    engine.warm()
    assert old_agent.wait() == 0
    assert ask_agent(home, {"op": "status"})["pid"] != old_agent.pid
    assert is_running(script)
    let_go(home)
    assert service.ended()["outcome"] == "completed"


def test_many_threads_start_one_agent(service, home):
    engines = [LocalEngine(home) for _ in range(6)]
    plans = [a_plan(service, "pass", attempt_id=f"run{n}.1") for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda pair: pair[0].submit(pair[1]), zip(engines, plans, strict=True)))
    for plan in plans:
        assert service.ended(plan.attempt_id)["outcome"] == "completed"
