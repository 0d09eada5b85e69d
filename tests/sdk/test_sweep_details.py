"""RunDetails(sweep).show() where people call it, over a real sweep."""

from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient

from azureml.core import Experiment
from azureml.train.hyperdrive import GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice
from azureml.widgets import RunDetails
from tests.sdk.test_run_details import kernel, showing, tables
from tests.sdk.yard import config

pytestmark = pytest.mark.slow

__all__ = ["kernel"]

SCRIPT = """
import sys
from azureml.core import Run
run = Run.get_context()
for step in range(1, 4):
    run.log("accuracy", float(sys.argv[2]) * step)
"""


def submit_sweep(experiment: Experiment, folder: Path) -> Any:
    settings = HyperDriveConfig(
        run_config=config(folder, SCRIPT),
        hyperparameter_sampling=GridParameterSampling({"rate": choice(0.1, 0.3, 0.2)}),
        primary_metric_name="accuracy",
        primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=3,
        max_concurrent_runs=1,
    )
    return experiment.submit(settings)


def test_a_notebook_follows_a_sweep_to_its_end(
    experiment: Experiment, tmp_path: Path, kernel: BlockingKernelClient
) -> None:
    run = submit_sweep(experiment, tmp_path / "source")
    kernel.execute(showing(run))
    shown = tables(kernel)
    kind, first = next(shown)
    assert (kind, "<th>Best so far</th>" in first) == ("display_data", True)
    kind, last = next((kind, table) for kind, table in shown if "<td>Completed</td></tr><tr><th>Target" in table)
    assert kind == "update_display_data"
    assert f"<td>0.9 by {run.id}_1: rate = 0.3</td>" in last
    assert "<td>3 completed</td>" in last
    assert last.count("<svg") == 2


def test_widget_data_holds_children_and_their_metric(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = submit_sweep(experiment, tmp_path / "source")
    run.wait_for_completion()
    data = RunDetails(run).get_widget_data()
    assert [child["run_id"] for child in data["child_runs"]] == [f"{run.id}_{number}" for number in (1, 2, 0)]
    assert data["child_runs"][0]["hyperparameters"] == {"rate": 0.3}
    assert data["run_metrics"][0]["values"] == pytest.approx([0.3, 0.6, 0.9])
    capsys.readouterr()
    RunDetails(run).show()
    assert f"Best so far: 0.9 by {run.id}_1: rate = 0.3" in capsys.readouterr().out.splitlines()
