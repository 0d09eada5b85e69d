"""Interactive runs whose process is killed, or leaves them open."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from azureml.core import Experiment, Run

CAUSE = "The process that logged to this run ended without run.complete()."


def left_by(code: str, experiment: Experiment) -> tuple[Run, str]:
    """The run that a process of its own prints the id of, and the rest that it prints."""
    start = f"""
import os, signal
from azureml.core import Experiment, Run, Workspace
experiment = Experiment(Workspace.get({experiment.workspace.name!r}), {experiment.name!r})
run = experiment.start_logging(snapshot_directory=None)
print(run.id, flush=True)
"""
    done = subprocess.run([sys.executable, "-c", start + code], stdout=subprocess.PIPE, text=True, timeout=60)
    run_id, _, rest = done.stdout.partition("\n")
    return Run.get(experiment.workspace, run_id), rest


def interactive_folder(run: Run) -> Path:
    return Path(os.environ["RUNYARD_HOME"]) / "interactive" / run.id


def message_of(details: Any) -> str:
    return str(details["error"]["error"]["message"])


def test_no_point_is_lost_by_a_kill_and_the_run_ends(experiment: Experiment) -> None:
    run, _ = left_by("for step in range(1000): run.log('loss', step)\nos.kill(os.getpid(), signal.SIGKILL)", experiment)
    details = run.wait_for_completion(raise_on_error=False)
    assert (details["status"], message_of(details)) == ("Failed", CAUSE)
    assert run.get_metrics() == {"loss": list(range(1000))}


def test_children_end_with_the_process_that_made_them(experiment: Experiment) -> None:
    run, child_id = left_by(
        "child = run.child_run('fold')\nchild.log('loss', 1)\nprint(child.id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)",
        experiment,
    )
    assert run.wait_for_completion(raise_on_error=False)["status"] == "Failed"
    child = Run.get(experiment.workspace, child_id.strip())
    assert child.wait_for_completion()["status"] == "Canceled"
    assert child.get_metrics() == {"loss": 1}


def test_a_process_that_forgets_to_complete_its_run_fails_it(experiment: Experiment) -> None:
    run, _ = left_by("run.log('loss', 1)", experiment)
    assert message_of(run.wait_for_completion(raise_on_error=False)) == CAUSE
    assert run.get_metrics() == {"loss": 1}


def test_a_completed_run_leaves_nothing_behind(experiment: Experiment) -> None:
    run, _ = left_by("run.log('loss', 1)\nrun.complete()", experiment)
    assert (run.get_status(), run.get_metrics()) == ("Completed", {"loss": 1})
    assert not interactive_folder(run).exists()
