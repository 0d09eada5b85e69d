"""The script's own end is the run's end, whatever of the platform is killed or stopped around it."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Run
from runyard_sdk.client import Client, quoted
from tests.faults.yard import Yard, ended, eventually, is_alive, kill, message_of
from tests.processes import stopped

pytestmark = pytest.mark.slow

FULL = os.environ.get("RUNYARD_FAULTS") == "full"
# Each returned call of log() is noted and fsynced outside of the platform's reach.
SCRIPT = """
import os, sys, time
from azureml.core import Run
folder, seconds, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
run = Run.get_context()
oracle = os.open(os.path.join(folder, "oracle"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
step, until = 0, time.monotonic() + seconds
while time.monotonic() < until or not os.path.exists(os.path.join(folder, "gate")):
    run.log("point", step)
    os.write(oracle, b"%d\\n" % step)
    os.fsync(oracle)
    step += 1
    time.sleep(0.01)
os.makedirs("outputs", exist_ok=True)
with open("outputs/last", "w") as sink:
    sink.write(str(step))
print("the script ends", flush=True)
open(os.path.join(folder, "ends"), "w").close()
os._exit(code) if code else sys.exit(0)
"""


class Script:
    def __init__(self, yard: Yard, folder: Path, *, seconds: float = 0, code: int = 0) -> None:
        folder.mkdir()
        self.folder = folder
        self.run = yard.submit(SCRIPT, arguments=(folder, seconds, code))

    def until_it_logs(self) -> None:
        eventually(lambda: len(self.logged()) >= 5, "five points")

    def let_go(self) -> None:
        (self.folder / "gate").touch()

    def ends(self) -> bool:
        return (self.folder / "ends").exists()

    def logged(self) -> list[int]:
        oracle = self.folder / "oracle"
        return [int(line) for line in oracle.read_text().splitlines()] if oracle.exists() else []

    def check(self, code: int = 0) -> None:
        run = ended(self.run)
        assert run.get_status() == ("Failed" if code else "Completed"), message_of(run)
        if code:
            assert message_of(run) == f"User program failed with exit code {code}."
        points: Any = run.get_metrics()["point"]
        assert points == self.logged()
        target = self.folder / "last"
        run.download_file("outputs/last", str(target))
        assert int(target.read_text()) == len(points)


def test_service_agent_and_supervisor_killed_together_do_not_end_a_script(yard: Yard, tmp_path: Path) -> None:
    """CI lets the script go on for a moment, `make faults` for a minute."""
    script = Script(yard, tmp_path / "a", seconds=60 if FULL else 3)
    script.until_it_logs()
    victims = [yard.pid_of(victim, script.run) for victim in ("service", "agent", "supervisor")]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, victims)), "the end of all three", 10)
    script.let_go()
    eventually(script.ends, "the script's end")
    yard.restart()
    script.check()


@pytest.mark.parametrize("code", [0, 3])
def test_a_supervisor_killed_around_the_end_of_its_script_leaves_the_true_end(
    yard: Yard, tmp_path: Path, code: int
) -> None:
    """Killed by a clock: before, in and after the moment in which the script ends."""
    scripts = []
    for number in range(40 if FULL else 6):
        script = Script(yard, tmp_path / str(number), code=code)
        script.until_it_logs()
        supervisor = yard.pid_of("supervisor", script.run)
        if number == 0:
            kill(supervisor)
        script.let_go()
        if number:
            eventually(script.ends, "the script's end")
            time.sleep((number - 1) * 0.004)  # the moment of the kill, not a wait for anything
            kill(supervisor)
        scripts.append(script)
    for script in scripts:
        script.check(code)


def test_runs_wait_for_an_agent_that_is_stopped(yard: Yard, tmp_path: Path) -> None:
    """CI stops it until a new run is told to wait, `make faults` for a minute."""
    before = Script(yard, tmp_path / "before")
    before.until_it_logs()
    begun = time.monotonic()
    with stopped(yard.pid_of("agent", before.run)):
        meanwhile = Script(yard, tmp_path / "meanwhile")
        eventually(lambda: "does not answer" in _message(meanwhile.run), "the word that the run waits")
        before.let_go()
        before.check()
        if FULL:
            eventually(lambda: time.monotonic() > begun + 60, "the minute's end")
            assert meanwhile.run.get_status() not in ("Failed", "Canceled")
    meanwhile.until_it_logs()
    meanwhile.let_go()
    meanwhile.check()


def test_a_run_waits_for_its_supervisor_that_is_stopped(yard: Yard, tmp_path: Path) -> None:
    script = Script(yard, tmp_path / "a")
    script.until_it_logs()
    begun = time.monotonic()
    with stopped(yard.pid_of("supervisor", script.run)):
        script.let_go()
        eventually(script.ends, "the script's end")
        if FULL:
            eventually(lambda: time.monotonic() > begun + 60, "the minute's end")
        assert script.run.get_status() == "Running"
    script.check()


def _message(run: Run) -> str:
    return json.dumps(Client().get("/runs/" + quoted(run.id)))
