"""The exit keeper: what it writes, what its own end and stop mean, and what each moment of a start leaves."""

import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.core.plan_json import plan_to_json
from runyard.node.agent_client import AgentClient
from runyard.node.home_socket import AGENT_LOCK, ANOTHER_AGENT, ask_agent
from runyard.node.processes.exit_status import (
    read_status,
    read_unregistered_statuses,
    running_processes,
    write_unregistered_status,
)
from runyard.node.processes.procfs import identify
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import a_plan, driver_log, is_running, pid_from
from tests.node.test_recovery import (
    WAITS_FOR_FILE,
    is_followed,
    keeper_pid,
    let_go,
    recover,
    running_script,
    supervisor_pid,
)
from tests.processes import stopped

pytestmark = pytest.mark.slow

SLEEPS = "import os, time\nprint('script=%d' % os.getpid(), flush=True)\ntime.sleep(600)\n"
SHOWS_OPEN_FILES = """
import os
for number in range(3, 1000):
    if os.path.lexists('/proc/self/fd/%d' % number):
        print(os.readlink('/proc/self/fd/%d' % number))
"""
LEAVES_A_CHILD = """
import subprocess
print('child=%d' % subprocess.Popen(['sleep', '300'], env={}).pid, flush=True)
"""
CHANGES_ITS_ROOM = """
import glob
for room in glob.glob(os.environ['RUNYARD_HOME'] + '/attempts/run1.1/ends/[0-9]*.*'): open(room, 'w').write('x')
"""
WRITES_MANY_FILES = """
for number in range(int(open('/proc/sys/fs/inotify/max_queued_events').read())): open('f%d' % number, 'w').close()
os._exit(3)
"""
SOON = timedelta(seconds=0.2)
LONG_ENOUGH_SECONDS = 30
FACTS = {"at": 0, "deadline": None, "out_of_memory_kills": 0, "roster": []}


def agent_pid(home: Path) -> int:
    return ask_agent(home, {"op": "status"})["pid"]


def kill_agent_and_supervisor(home: Path) -> None:
    os.kill(agent_pid(home), signal.SIGKILL)
    os.kill(supervisor_pid(home), signal.SIGKILL)


def forget_registration(home: Path) -> None:
    """Leave what a supervisor leaves that is killed just after it has started the script."""
    ends = TaskFolder(home, "run1.1").root / "ends"
    (process,) = running_processes(ends).values()
    (ends / f"{process.pid}.{process.started}").rename(ends / ".0")


def laid_out_by_a_killed_supervisor(home: Path, service, script: str) -> None:
    """A part whose supervisor was killed just before it started the script."""
    folder = TaskFolder(home, "run1.1")
    (folder.root / "ends").mkdir(parents=True)
    (folder.root / "ends" / ".0").write_text('{"rank": "0"}')
    folder.write("plan.json", plan_to_json(a_plan(service, script)))
    folder.write("supervisor.json", {"pid": 1 << 22, "started": 1})
    folder.write("process.json", {**FACTS, "keeper": [1 << 22, 1]})


def test_a_run_is_canceled_while_the_keeper_is_stopped(submit, service, home, engine):
    ticket = submit(SLEEPS)
    script = pid_from(service, "script")
    with stopped(keeper_pid(home)):
        engine.cancel(ticket, grace=SOON)
        assert service.ended(seconds=LONG_ENOUGH_SECONDS)["outcome"] == "canceled"
    assert not is_running(script)


def test_a_followed_run_is_canceled_while_the_keeper_is_stopped(submit, service, home, engine):
    ticket = submit(SLEEPS)
    script = running_script(service)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    with stopped(keeper_pid(home)):
        engine.cancel(ticket, grace=SOON)
        assert service.ended(seconds=LONG_ENOUGH_SECONDS)["outcome"] == "canceled"
    assert not is_running(script)


def test_the_end_of_a_followed_script_is_told_when_a_stopped_keeper_goes_on(submit, service, home):
    submit(f"{WAITS_FOR_FILE}\nos._exit(3)")
    script = running_script(service)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    with stopped(keeper_pid(home)):
        let_go(home)
        service.wait_for(lambda: not is_running(script))
        assert not any(report["state"] == "ended" for report in service.reports)
    assert service.ended()["exit_code"] == 3


def test_a_part_that_was_canceled_before_its_supervisor_began_starts_no_script(service, home, engine):
    folder = TaskFolder(home, "run1.1")
    folder.root.mkdir(parents=True)
    folder.write("plan.json", plan_to_json(a_plan(service, SLEEPS)))
    folder.request_cancel(0.2)
    engine.warm()
    ask_agent(home, {"op": "start", "part": "run1.1"})
    ended = service.ended()
    assert (ended["outcome"], ended["phase"], driver_log(service)) == ("canceled", "Preparing", "")


def test_a_supervisor_killed_between_the_end_of_the_script_and_its_report_changes_nothing(submit, service, home):
    submit(f"{WAITS_FOR_FILE}\nos._exit(3)")
    script = pid_from(service, "script")
    supervisor = supervisor_pid(home)
    with stopped(supervisor):
        let_go(home)
        service.wait_for(lambda: not is_running(script))
        os.kill(supervisor, signal.SIGKILL)
    ended = service.ended()
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 3)


@pytest.mark.parametrize("code", [0, 3])
def test_a_script_that_its_supervisor_could_not_register_is_found(submit, service, home, engine, code):
    ticket = submit(f"{WAITS_FOR_FILE}\nos._exit({code})")
    script = running_script(service)
    kill_agent_and_supervisor(home)
    forget_registration(home)
    recover(service, engine, ticket)
    is_followed(service)
    assert is_running(script)
    let_go(home)
    assert service.ended()["exit_code"] == code


def end_before_it_is_registered(submit, service, home, code: int):
    """Have a script end whose agent is dead, and whose supervisor was killed before it could register it."""
    ticket = submit(f"{WAITS_FOR_FILE}\nos._exit({code})")
    script = pid_from(service, "script")
    process = identify(script)
    kill_agent_and_supervisor(home)
    forget_registration(home)
    let_go(home)
    service.wait_for(lambda: identify(script) != process)
    return ticket, process


@pytest.mark.parametrize("code", [0, 3])
def test_how_a_script_ended_before_it_could_be_registered_is_known(submit, service, home, engine, code):
    ticket, _ = end_before_it_is_registered(submit, service, home, code)
    recover(service, engine, ticket)
    assert service.ended()["exit_code"] == code
    assert driver_log(service).count("script=") == 1


def test_a_script_that_may_be_one_of_two_ended_in_an_unknown_way_and_is_not_started_again(
    submit, service, home, engine
):
    ticket, script = end_before_it_is_registered(submit, service, home, 0)
    ends = TaskFolder(home, "run1.1").root / "ends"
    write_unregistered_status(ends, replace(script, pid=script.pid + 1), 3 << 8)
    recover(service, engine, ticket)
    ended = service.ended()
    assert (ended["outcome"], ended["lost"]) == ("failed", True)
    assert "not known how the script ended" in ended["error"]["message"]
    assert driver_log(service).count("script=") == 1


def test_how_a_registered_script_ended_is_left_in_no_other_part(submit, service, home):
    submit(WAITS_FOR_FILE)
    pid_from(service, "script")
    submit(SLEEPS, attempt_id="run2.1")
    first, second = (TaskFolder(home, part) for part in ("run1.1", "run2.1"))
    (script,) = service.wait_for(lambda: running_processes(second.root / "ends")).values()
    kill_agent_and_supervisor(home)
    forget_registration(home)
    second.supervisor().send(signal.SIGKILL)
    script.send(signal.SIGKILL)
    service.wait_for(lambda: identify(script.pid) != script)
    assert read_status(second.root / "ends", "0") == signal.SIGKILL
    assert script not in read_unregistered_statuses(first.root / "ends")


@pytest.mark.parametrize("is_over", [False, True])
def test_what_a_followed_script_left_without_its_variables_ends_with_the_part(submit, service, home, is_over):
    submit(LEAVES_A_CHILD + WAITS_FOR_FILE)
    script, child = running_script(service), pid_from(service, "child")
    supervisor = supervisor_pid(home)
    with stopped(supervisor):
        if is_over:
            let_go(home)
            service.wait_for(lambda: not is_running(script))
        os.kill(supervisor, signal.SIGKILL)
    if not is_over:
        is_followed(service)
        let_go(home)
    assert service.ended()["outcome"] == "completed"
    assert not is_running(child)


def test_what_a_followed_script_started_ends_with_the_node(service, home):
    with subprocess.Popen(["sleep", "300"]) as node:
        agent = AgentClient(home, guard=identify(node.pid))
        folder = TaskFolder(home, "run1.1")
        folder.root.mkdir(parents=True)
        folder.write("plan.json", plan_to_json(a_plan(service, LEAVES_A_CHILD + WAITS_FOR_FILE)))
        agent.ask({"op": "start", "part": "run1.1"})
        script, child = running_script(service), pid_from(service, "child")
        keeper = keeper_pid(home)
        os.kill(supervisor_pid(home), signal.SIGKILL)
        is_followed(service)
        node.kill()
    service.wait_for(lambda: not is_running(keeper))
    assert not is_running(script)
    assert not is_running(child)


def test_a_part_whose_script_was_not_started_begins_again(service, home, engine):
    laid_out_by_a_killed_supervisor(home, service, "print('ran')")
    engine.warm()
    assert service.ended()["outcome"] == "completed"
    assert driver_log(service) == "ran\n"


def test_a_part_that_begins_again_has_the_keeper_of_its_new_supervisor(service, home, engine):
    laid_out_by_a_killed_supervisor(home, service, WAITS_FOR_FILE)
    engine.warm()
    script = running_script(service)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    assert is_running(script)
    let_go(home)
    assert service.ended()["outcome"] == "completed"


def test_the_script_inherits_nothing_of_its_supervisor(submit, service, home):
    submit(SHOWS_OPEN_FILES)
    assert service.ended()["outcome"] == "completed"
    assert driver_log(service) == ""


def test_a_killed_keeper_takes_the_agent_along_and_the_next_run_has_both(submit, service, home):
    submit(WAITS_FOR_FILE)
    pid_from(service, "script")
    agent, keeper = agent_pid(home), keeper_pid(home)
    os.kill(keeper, signal.SIGKILL)
    service.wait_for(lambda: not is_running(agent))
    submit("pass", attempt_id="run2.1")
    assert service.ended("run2.1")["outcome"] == "completed"
    assert agent_pid(home) != agent
    let_go(home)
    assert service.ended()["outcome"] == "completed"


def test_it_ends_as_the_agent_does(home):
    command = [sys.executable, "-m", "runyard.node.exit_keeper", str(home)]
    is_ready, told = os.pipe()
    first = subprocess.Popen([*command, str(told)], pass_fds=(told,))
    os.close(told)
    assert os.read(is_ready, 1) == b"1"
    os.close(is_ready)
    assert subprocess.run(command, check=False).returncode == ANOTHER_AGENT
    os.kill(agent_pid(home), signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL


def test_a_service_that_ignores_the_end_of_children_passes_that_to_no_keeper(home):
    command = [sys.executable, "-m", "runyard.node.exit_keeper", str(home)]
    with (home / AGENT_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = subprocess.run(command, check=False, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert ended.returncode == ANOTHER_AGENT


def test_a_keeper_outlives_a_script_that_writes_to_its_room(submit, service, home):
    submit(WAITS_FOR_FILE + CHANGES_ITS_ROOM)
    running_script(service)
    keeper, agent = keeper_pid(home), agent_pid(home)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    let_go(home)
    ended = service.ended()
    assert (ended["outcome"], ended["lost"]) == ("failed", True)
    assert "not known how the script ended" in ended["error"]["message"]
    assert is_running(keeper)
    assert agent_pid(home) == agent


def test_a_keeper_outlives_the_folder_of_all_parts(submit, service, home):
    submit(SLEEPS)
    script = pid_from(service, "script")
    keeper, supervisor = keeper_pid(home), supervisor_pid(home)
    (home / "attempts").rename(home / "elsewhere")
    os.kill(supervisor, signal.SIGKILL)
    os.kill(script, signal.SIGKILL)
    service.wait_for(lambda: identify(script) is None)
    assert is_running(keeper)
    assert is_running(agent_pid(home))


def test_the_end_of_a_followed_script_is_seen_though_the_kernel_tells_not_all_changes_of_files(submit, service, home):
    submit(WAITS_FOR_FILE + WRITES_MANY_FILES)
    script = running_script(service)
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    with stopped(supervisor_pid(home)):
        let_go(home)
        service.wait_for(lambda: identify(script) is None, seconds=LONG_ENOUGH_SECONDS)
    assert service.ended()["exit_code"] == 3
