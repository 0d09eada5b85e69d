"""Sweeps that are stopped, in part or whole, and those that begin from others."""

import json
from pathlib import Path

import pytest

from azureml.core import Experiment
from azureml.exceptions import UserErrorException
from azureml.train.hyperdrive import BanditPolicy, PrimaryMetricGoal
from runyard_sdk.tuning import AshaPolicy, trials_frame
from tests.sdk.sweep_scripts import TUNED, sweep_over, swept

pytestmark = pytest.mark.slow

WAITING = (
    TUNED
    + """
import time
while given.rate < 0.5:
    time.sleep(0.05)
"""
)


def test_a_child_that_a_policy_stops_says_why(experiment: Experiment, tmp_path: Path) -> None:
    # One at a time: the good one has ended when the bad one, which would wait for ever, is judged.
    run = swept(
        experiment, tmp_path / "source", 0.9, 0.1, text=WAITING, max_concurrent_runs=1,
        policy=BanditPolicy(evaluation_interval=2, slack_factor=0.2),
    )  # fmt: skip
    good, bad = sorted(run.get_children(), key=lambda child: child.id)
    assert (good.get_status(), bad.get_status(), run.get_status()) == ("Completed", "Canceled", "Completed")
    assert "Bandit policy at interval 2: " in bad.get_details()["warnings"][0]["message"]
    assert f"[CONTROLLER][INFO]{bad.id} stopped: Bandit policy at interval 2: " in run.get_diagnostics()
    row = trials_frame(run).iloc[1]
    assert (row["status"], row["stopped_by"], row["stopped_at"]) == ("Canceled", "Bandit", 2)
    assert run.get_best_run_by_primary_metric(include_canceled=False).id == good.id


def test_asha_is_a_policy_of_a_sweep(experiment: Experiment, tmp_path: Path) -> None:
    run = swept(
        experiment, tmp_path / "source", 0.9, 0.8, 0.1, text=WAITING, max_concurrent_runs=1,
        policy=AshaPolicy(reduction_factor=2, min_intervals=1),
    )  # fmt: skip
    stopped = trials_frame(run)["stopped_by"]
    assert stopped.isna()[0]
    assert stopped[2] == "ASHA"


def test_cancel_ends_the_sweep_and_its_children(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.submit(sweep_over(tmp_path / "source", 0.1, 0.2, 0.3, text=WAITING))
    while not any(child.get_metrics() for child in run.get_children()):
        run._client.get(run._path + "/wait", timeout=1)
    assert run.cancel() is True
    assert run.wait_for_completion()["status"] == "Canceled"
    assert {child.get_status() for child in run.get_children()} == {"Canceled"}


def test_a_sweep_that_resumes_others_knows_their_best(experiment: Experiment, tmp_path: Path) -> None:
    first = swept(experiment, tmp_path / "source", 0.9)
    second = swept(Experiment(experiment.workspace, "another"), tmp_path / "source", 0.1, resume_from=[first])
    best = second.get_best_run_by_primary_metric()
    assert (best.id, best.experiment.name) == (f"{first.id}_0", experiment.name)
    assert second.get_best_run_by_primary_metric(include_resume_from_runs=False).id == f"{second.id}_0"
    assert json.loads(second.get_properties()["resume_from"]) == [first.id]
    assert [row["run_id"] for row in second.get_children_sorted_by_primary_metric()] == [f"{second.id}_0"]


def test_a_child_is_begun_again_with_its_values_and_outputs(experiment: Experiment, tmp_path: Path) -> None:
    first = swept(experiment, tmp_path / "source", 0.9)
    second = swept(experiment, tmp_path / "source", 0.1, resume_child_runs=next(first.get_children()), max_total_runs=2)
    assert [json.loads(text) for text in second.get_hyperparameters().values()] == [{"--rate": 0.9}, {"--rate": 0.1}]
    begun = next(child for child in second.get_children() if child.id == f"{second.id}_0")
    begun.download_file("outputs/model.txt", str(tmp_path / "model.txt"))
    assert (tmp_path / "model.txt").read_text() == "rate 0.9\nrate 0.9\n"
    begun.download_file("azureml-logs/70_driver_log.txt", str(tmp_path / "log.txt"))
    assert "resuming from ['model.txt']" in (tmp_path / "log.txt").read_text()


def test_the_smallest_is_the_best_where_that_is_the_goal(experiment: Experiment, tmp_path: Path) -> None:
    run = swept(experiment, tmp_path / "source", 0.3, 0.1, primary_metric_goal=PrimaryMetricGoal.MINIMIZE)
    assert run.get_best_run_by_primary_metric().id == f"{run.id}_1"
    assert run.get_children_sorted_by_primary_metric()[0]["best_primary_metric"] == pytest.approx(0.1)


def test_an_id_of_ones_own_is_used_once(experiment: Experiment, tmp_path: Path) -> None:
    run = swept(experiment, tmp_path / "source", 0.1, custom_run_id="my-sweep")
    assert [child.id for child in run.get_children()] == ["my-sweep_0"]
    other = sweep_over(tmp_path / "other", 0.2, custom_run_id="my-sweep")
    with pytest.raises(UserErrorException, match="custom_run_id 'my-sweep' is that of a run that there is"):
        experiment.submit(other)
