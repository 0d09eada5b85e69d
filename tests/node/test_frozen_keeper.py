"""An exit keeper that somebody has stopped keeps no run from being canceled, and outlives none."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from runyard.node.agent_socket import ask_agent
from runyard.node.attempt import AttemptFolder
from runyard.node.processes import children_of
from runyard.planning.plan_json import plan_to_json
from tests.node.conftest import a_plan, driver_log, is_running, pid_from
from tests.processes import stopped

SLEEPS = "import os, time\nprint('script=%d' % os.getpid(), flush=True)\ntime.sleep(600)\n"
SOON = timedelta(seconds=0.2)
LONG_ENOUGH_SECONDS = 30


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    with stopped(pid), suppress(ProcessLookupError):
        yield
        os.kill(pid, signal.SIGKILL)


def waiting_keeper(supervisor: int) -> int | None:
    """The child that holds nothing but its standard files and the socket for its order."""
    for pid in children_of(supervisor) or ():
        with suppress(OSError):
            if len(os.listdir(f"/proc/{pid}/fd")) == 4:
                return pid
    return None


def frozen_before_its_order(submit, service, home: Path) -> tuple[str, int, int]:
    """The ticket of a part that is prepared while its keeper is stopped; supervisor and keeper."""
    folder = AttemptFolder(home, "run1.1")
    service.stop()
    ticket = submit(SLEEPS, restores_outputs=True)  # asks the service, which is away
    supervisor = service.wait_for(folder.supervisor).pid
    keeper = service.wait_for(lambda: waiting_keeper(supervisor))
    os.kill(keeper, signal.SIGSTOP)
    service.start()
    service.wait_for(lambda: folder.read("process.json"))
    return ticket, supervisor, keeper


def test_a_run_is_canceled_while_its_keeper_is_stopped_and_the_keeper_goes(submit, service, home, engine):
    ticket = submit(SLEEPS)
    script = pid_from(service, "script")
    keeper = AttemptFolder(home, "run1.1").read("process.json")["keeper"][0]
    with frozen(keeper):
        engine.cancel(ticket, grace=SOON)
        assert service.ended(seconds=LONG_ENOUGH_SECONDS)["outcome"] == "canceled"
        service.wait_for(lambda: not is_running(keeper), LONG_ENOUGH_SECONDS)
    assert not is_running(script)


def test_a_run_is_canceled_whose_keeper_was_stopped_before_its_order(submit, service, home, engine):
    ticket, _, keeper = frozen_before_its_order(submit, service, home)
    with frozen(keeper):
        engine.cancel(ticket, grace=SOON)
        assert service.ended(seconds=LONG_ENOUGH_SECONDS)["outcome"] == "canceled"
        service.wait_for(lambda: not is_running(keeper), LONG_ENOUGH_SECONDS)
    assert driver_log(service) == ""


def test_it_is_canceled_too_when_its_supervisor_was_killed_then(submit, service, home, engine):
    ticket, first, keeper = frozen_before_its_order(submit, service, home)
    with frozen(keeper):
        os.kill(first, signal.SIGKILL)
        folder = AttemptFolder(home, "run1.1")
        service.wait_for(lambda: (second := folder.supervisor()) is not None and second.pid != first)
        engine.cancel(ticket, grace=SOON)
        assert service.ended(seconds=LONG_ENOUGH_SECONDS)["outcome"] == "canceled"
        service.wait_for(lambda: not is_running(keeper), LONG_ENOUGH_SECONDS)
    assert driver_log(service) == ""


def test_a_part_that_was_canceled_before_its_supervisor_began_starts_no_script(service, home, engine):
    folder = AttemptFolder(home, "run1.1")
    folder.root.mkdir(parents=True)
    folder.write("plan.json", plan_to_json(a_plan(service, SLEEPS)))
    folder.want_cancel(0.2)
    engine.warm()
    ask_agent(home, {"op": "start", "part": "run1.1"})
    ended = service.ended()
    assert (ended["outcome"], ended["phase"], driver_log(service)) == ("canceled", "Preparing", "")
