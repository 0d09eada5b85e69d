"""RunDetails(run).show() where people call it: in a notebook and in a terminal."""

import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from azureml.core import Experiment, Run
from tests.sdk.yard import submit

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 120
SHOWING = """
from azureml.core import Run, Workspace
from azureml.widgets import RunDetails
RunDetails(Run.get(Workspace.get({workspace!r}), {run!r})).show()
"""


def showing(run: Run) -> str:
    return SHOWING.format(workspace=run.experiment.workspace.name, run=run.id)


@pytest.fixture
def kernel(experiment: Experiment) -> Iterator[BlockingKernelClient]:
    """A notebook's own Python, with the variables of this test."""
    manager, client = start_new_kernel(startup_timeout=PATIENCE_SECONDS)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def tables(kernel: BlockingKernelClient) -> Iterator[tuple[str, str]]:
    """(message type, HTML) of all that is displayed from now on; a failing cell fails the test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        message: dict[str, Any] = kernel.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
        assert message["msg_type"] != "error", message["content"]
        if "data" in message["content"]:
            yield message["msg_type"], message["content"]["data"]["text/html"]


def test_a_notebook_shows_a_table_that_follows_the_run(experiment: Experiment, kernel: BlockingKernelClient) -> None:
    run = experiment.start_logging(snapshot_directory=None, display_name="<b>")
    run.log("loss", 0.5)
    run.flush()
    kernel.execute(showing(run))
    shown = tables(kernel)
    kind, table = next(shown)
    assert kind == "display_data"
    assert "<td>Running</td>" in table
    assert run.id in table
    assert "<th>loss</th><td>0.5</td>" in table
    run.log("loss", 0.25)
    run.complete()
    kind, table = next((kind, table) for kind, table in shown if "<td>Completed</td>" in table)
    assert kind == "update_display_data"
    assert "<th>loss</th><td>0.25 (2 values)</td>" in table


def test_the_cell_returns_while_the_run_goes_on(experiment: Experiment, kernel: BlockingKernelClient) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    kernel.execute_interactive(showing(run), timeout=PATIENCE_SECONDS, output_hook=lambda message: None)
    assert run.get_status() == "Running"
    run.complete()


def test_a_terminal_shows_lines_as_they_come(experiment: Experiment, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", "print('epoch 1')")
    screen, terminal = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", showing(run)], stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        lines = "".join(pieces(screen)).splitlines()
    os.close(screen)
    shown = [f"Run {run.id} ({run.get_portal_url()})", "epoch 1", f"Run {run.id}: Completed"]
    assert [line for line in lines if line in shown] == shown, lines


def pieces(screen: int) -> Iterator[str]:
    """What appears on a terminal until nobody writes to it any more."""
    while True:
        try:
            yield os.read(screen, 4096).decode()
        except OSError:  # the last writer has left
            return
