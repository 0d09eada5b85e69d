"""Ctrl-C while a run is followed or waited for: two lines, exit code 130, and the run goes on."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import RUNYARD, Shell

BEGIN = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
here = Environment("here")
here.python.user_managed_dependencies = True
config = ScriptRunConfig("slow", "slow.py", environment=here)
print(Experiment(Workspace.from_config(), "slow").submit(config).id)
"""
WAIT = """
from azureml.core import Run, Workspace
run = Run.get(Workspace.from_config(), {id!r})
print("waits", flush=True)
run.wait_for_completion(show_output=True)
"""
CAUGHT = """
from azureml.exceptions import ExperimentExecutionException
from azureml.core._run_status import interrupted
for kind in (KeyboardInterrupt, ExperimentExecutionException):
    try:
        raise interrupted("r")
    except kind as error:
        print(error.message)
"""


@pytest.fixture(scope="session")
def going(shell: Shell) -> Iterator[str]:
    """The id of a run that goes on and has written a line."""
    (shell.folder / "slow").mkdir()
    (shell.folder / "slow" / "slow.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    run_id = shell.python(BEGIN).split()[-1]
    yield run_id
    shell("runs", "cancel", run_id)
    shell("runs", "wait", run_id)


@pytest.mark.parametrize("command", [["runs", "logs", "-f"], ["runs", "logs", "-f", "--all"]], ids=" ".join)
def test_following_a_run_on_the_command_line(shell, going, command):
    process = _begun(shell, [RUNYARD, *command, going])
    _read_until(process, "begun")
    _check_end(shell, process, going)


def test_waiting_for_a_run_on_the_command_line(shell, going):
    script = f"import sys; sys.argv = ['runyard', 'runs', 'wait', {going!r}]; print('waits', flush=True)"
    process = _begun(shell, [sys.executable, "-c", f"from runyard.cli.main import main\n{script}\n{PAUSED}main()"])
    _read_until(process, "asked")
    _check_end(shell, process, going)


# Says when the request has gone out: an interrupt before it is that of any program that starts.
PAUSED = """
from runyard_sdk.transport import Transport
send = Transport._send
def told(self, connection, method, path, *rest):
    if "/wait" in path:
        print("asked", flush=True)
    return send(self, connection, method, path, *rest)
Transport._send = told
"""


def test_waiting_for_a_run_in_a_script(shell, going):
    process = _begun(shell, [sys.executable, "-c", WAIT.format(id=going)])
    _read_until(process, "begun")
    _check_end(shell, process, going)


def test_a_script_may_catch_it_as_either(shell):
    assert shell.python(CAUGHT).count("the run goes on") == 2


def _begun(shell: Shell, command: list[object]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shell.variables,
        cwd=shell.folder,
        # What a shell starts in the background is deaf to Ctrl-C, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def _read_until(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    assert any(word in line for line in iter(process.stdout.readline, ""))


def _check_end(shell: Shell, process: "subprocess.Popen[str]", run_id: str) -> None:
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    lines = said.strip().splitlines()
    assert len(lines) == 2, said
    assert lines[0] == "Interrupted; the run goes on."
    assert f"runyard runs cancel {run_id}" in lines[1]
    assert "Running" in shell("runs", "show", run_id).stdout
