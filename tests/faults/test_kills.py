"""kill -9 of every process behind a run, at every phase: what was acknowledged is there afterwards, the end is true.

CI kills one process at each phase; `make faults` the whole matrix. A phase is held open from outside: a package
whose build waits, a node that is taken, data that does not come, a script that goes on, a heap of outputs.
"""

import os
from pathlib import Path

import pytest

from azureml.core import Run
from tests.faults.holding import HOLDS, Held
from tests.faults.yard import Yard, ended, eventually, is_alive, message_of

CI = {
    ("Preparing", "supervisor"),
    ("Queued", "service"),
    ("Starting", "agent"),
    ("Running", "script"),
    ("Finalizing", "service"),
}
# A queued run has no supervisor, and only a running one a script.
MATRIX = [
    (phase, victim)
    for phase in HOLDS
    for victim in ("service", "agent", "supervisor", "script")
    if (victim != "script" or phase == "Running") and (victim != "supervisor" or phase != "Queued")
]
CHOSEN = MATRIX if os.environ.get("RUNYARD_FAULTS") == "full" else [case for case in MATRIX if case in CI]


@pytest.mark.parametrize(("phase", "victim"), CHOSEN, ids=lambda value: value)
def test_after_a_kill_the_run_has_a_true_end(yard: Yard, tmp_path: Path, phase: str, victim: str) -> None:
    with HOLDS[phase](yard, tmp_path) as held:
        if victim == "script":
            os.kill(held.script_pid(), 9)
        else:
            yard.kill(victim, held.run)
    yard.restart()
    run = ended(held.run)
    _check_the_end(run, held, victim)
    _check_nothing_acknowledged_is_lost(run, held)
    assert yard.finish("print('and the next run works')").get_status() == "Completed"


def _check_the_end(run: Run, held: Held, victim: str) -> None:
    status = run.get_status()
    assert status == ("Completed" if held.finished else "Failed")
    if victim != "script":
        assert status == "Completed", message_of(run)
    if status == "Failed":
        assert len(message_of(run)) > 20
    for pid in held.script_pids():
        eventually(lambda pid=pid: not is_alive(pid), f"the end of script {pid}", 15)


def _check_nothing_acknowledged_is_lost(run: Run, held: Held) -> None:
    stored = run.get_metrics().get("point", [])
    stored = stored if isinstance(stored, list) else [stored]
    missing = set(held.acknowledged) - set(stored)
    assert not missing, f"{len(missing)} points whose log() had returned are gone, e.g. {sorted(missing)[:5]}"
    assert len(stored) == len(set(stored)), "a point was stored twice"


def test_eight_runs_outlive_three_deaths_of_the_service(yard: Yard, tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom azureml.core import Run\nrun = Run.get_context()\n"
        "for step in range(200):\n    run.log('point', step)\n    time.sleep(0.01)"
    )
    runs = [yard.submit(script) for _ in range(8)]
    for _ in range(3):
        yard.kill("service", runs[0])
        yard.restart()
    for run in runs:
        assert ended(run).get_status() == "Completed", message_of(run)
        assert run.get_metrics()["point"] == list(range(200))
