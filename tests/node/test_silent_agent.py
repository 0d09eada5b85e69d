"""An agent that is stopped and goes on later: nothing is given up, and what was asked of it is done."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from runyard.core.errors import EngineSilent
from runyard.core.ports.engine import NodeTaskPhase, ObservedTask, ticket_for
from runyard.node.home_socket import ask_agent
from runyard.node.processes import detached
from runyard.node.processes.detached import DetachedProcess
from tests.node.conftest import a_plan, is_running, pid_from
from tests.node.test_recovery import WAITS_FOR_FILE, let_go, supervisor_pid
from tests.processes import stopped

pytestmark = pytest.mark.slow

ALIVE, LOST = [ObservedTask(NodeTaskPhase.ALIVE)], [ObservedTask(NodeTaskPhase.LOST)]


def test_a_run_submitted_while_the_agent_is_stopped_starts_when_it_goes_on(service, home, engine):
    engine.warm()
    agent, ticket = ask_agent(home, {"op": "status"})["pid"], ticket_for("run1.1", 1)
    with stopped(agent):
        with pytest.raises(EngineSilent, match="does not answer"):
            engine.submit(a_plan(service, "print('here')"))
        for _ in range(5):
            assert engine.observe([ticket])[ticket] == ALIVE, "a part that its agent will start is not lost"
    assert service.ended()["outcome"] == "completed"
    assert ask_agent(home, {"op": "status"})["pid"] == agent


def test_a_lost_supervisor_is_replaced_when_the_stopped_agent_goes_on(submit, service, home, engine):
    ticket = submit(WAITS_FOR_FILE)
    script = pid_from(service, "script")
    agent = ask_agent(home, {"op": "status"})["pid"]
    with stopped(agent):
        os.kill(supervisor_pid(home), signal.SIGKILL)
        service.wait_for(lambda: engine.observe([ticket])[ticket] == LOST)
        with pytest.raises(EngineSilent):
            engine.recover(ticket, 0)
        assert engine.observe([ticket])[ticket] == ALIVE
        assert is_running(script)
    let_go(home)
    assert service.ended()["outcome"] == "completed"


def test_an_agent_that_is_killed_while_stopped_is_replaced(service, home, engine):
    engine.warm()
    agent, ticket = ask_agent(home, {"op": "status"})["pid"], ticket_for("run1.1", 1)
    with stopped(agent):
        with pytest.raises(EngineSilent):
            engine.submit(a_plan(service, "print('here')"))
        os.kill(agent, signal.SIGKILL)
        service.wait_for(lambda: engine.observe([ticket])[ticket] == LOST)
    engine.recover(ticket, 0)
    assert service.ended()["outcome"] == "completed"


def test_a_stopped_supervisor_is_not_lost(submit, service, home, engine):
    ticket = submit(WAITS_FOR_FILE)
    script = pid_from(service, "script")
    with stopped(supervisor_pid(home)):
        let_go(home)
        service.wait_for(lambda: not is_running(script))
        assert engine.observe([ticket])[ticket] == ALIVE
    assert service.ended()["outcome"] == "completed"


def test_a_script_that_ended_in_time_is_not_late_because_its_supervisor_was_stopped(submit, service, home):
    submit(WAITS_FOR_FILE, max_seconds=4)
    script = pid_from(service, "script")
    time.sleep(1)  # its supervisor has nothing left to do but wait
    with stopped(supervisor_pid(home)):
        let_go(home)
        service.wait_for(lambda: not is_running(script))
        time.sleep(4)
    assert service.ended()["outcome"] == "completed"


def test_a_service_that_is_stopped_while_its_agent_starts_finds_it_afterwards(service, home, engine, monkeypatch):
    began, stopped_seconds = DetachedProcess.start, [0.0]

    def start_then_be_stopped(process, command, variables):
        began(process, command, variables)
        stopped_seconds[0] += 60.0

    monkeypatch.setattr(DetachedProcess, "start", start_then_be_stopped)
    monkeypatch.setattr(detached, "time", SimpleNamespace(monotonic=lambda: stopped_seconds[0]))
    engine.submit(a_plan(service, "print('here')"))
    monkeypatch.undo()
    assert service.ended()["outcome"] == "completed"


def test_an_agent_whose_starter_was_killed_goes_on(service, home):
    reads, told = os.pipe()
    os.close(reads)
    agent = subprocess.Popen([sys.executable, "-m", "runyard.node.exit_keeper", str(home), str(told)], pass_fds=[told])
    os.close(told)
    try:
        service.wait_for(lambda: "pid" in asked(home, {"op": "status"}))
    finally:
        asked(home, {"op": "exit"})
        assert agent.wait(30) == 0


def asked(home, request):
    try:
        return ask_agent(home, request)
    except OSError:
        return {}
