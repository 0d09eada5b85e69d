"""Sweeps as a notebook uses them, through a real service."""

import json
import re
from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRun
from azureml.exceptions import ActivityFailedException
from azureml.train.estimator import Estimator
from azureml.train.hyperdrive import HyperDriveRun, RandomParameterSampling, uniform
from runyard_sdk.tuning import trials_frame
from tests.sdk.sweep_scripts import TUNED, sweep_over, swept


@pytest.fixture
def tuned(experiment: Experiment, tmp_path: Path) -> HyperDriveRun:
    """A sweep of three rates that has ended."""
    return swept(experiment, tmp_path / "source", 0.1, 0.3, 0.2, arguments=("--epochs", 3))


def test_a_notebook_goes_from_the_sweep_to_its_best_model(tuned: HyperDriveRun, tmp_path: Path) -> None:
    best = tuned.get_best_run_by_primary_metric()
    assert isinstance(best, ScriptRun)
    assert best.get_details()["runDefinition"]["arguments"] == ["--epochs", "3", "--rate", "0.3"]
    assert max(best.get_metrics()["acc"]) == pytest.approx(0.9)
    assert "outputs/model.txt" in best.get_file_names()
    model = best.register_model(model_name="tuned", model_path="outputs/model.txt")
    assert Path(model.download(str(tmp_path / "got"))).read_text() == "rate 0.3\n"


def test_ids_and_properties_are_those_of_the_original(tuned: HyperDriveRun) -> None:
    assert re.fullmatch(r"HD_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", tuned.id)
    assert {child.id for child in tuned.get_children()} == {f"{tuned.id}_{number}" for number in range(3)}
    properties = tuned.get_properties()
    best = tuned.get_best_run_by_primary_metric()
    assert properties["best_child_run_id"] == best.id == f"{tuned.id}_1"
    assert float(properties["score"]) == pytest.approx(0.9)
    assert properties["runTemplate"] == "HyperDrive"
    assert properties["best_metric_status"] == "Succeeded"


def test_children_can_be_compared(tuned: HyperDriveRun) -> None:
    rows = tuned.get_children_sorted_by_primary_metric()
    assert [json.loads(row["hyperparameters"])["--rate"] for row in rows] == [0.3, 0.2, 0.1]
    assert {row["status"] for row in rows} == {"Completed"}
    assert tuned.get_children_sorted_by_primary_metric(top=1, reverse=True)[0]["run_id"] == f"{tuned.id}_0"
    metrics = tuned.get_metrics()
    assert {run_id: metrics[run_id]["acc"][0] for run_id in tuned.get_hyperparameters()} == {
        f"{tuned.id}_{number}": rate for number, rate in enumerate((0.1, 0.3, 0.2))
    }


def test_each_childs_values_are_a_tag_of_the_sweep_and_of_the_child(tuned: HyperDriveRun) -> None:
    tags = tuned.get_tags()
    assert json.loads(tags[f"{tuned.id}_2"]) == {"--rate": 0.2}
    assert json.loads(tags["_aml_system_generator_config"])["name"] == "GRID"
    child = Run.get(tuned.experiment.workspace, f"{tuned.id}_2")
    assert json.loads(child.get_tags()["hyperparameters"]) == {"--rate": 0.2}


def test_the_trials_are_a_table(tuned: HyperDriveRun) -> None:
    frame = trials_frame(tuned)
    assert frame["--rate"].tolist() == [0.1, 0.3, 0.2]
    assert frame.sort_values("best_primary_metric").iloc[-1]["run_id"] == f"{tuned.id}_1"
    assert frame["stopped_by"].isna().all()


def test_a_sweep_is_found_again_with_its_config(tuned: HyperDriveRun) -> None:
    workspace = tuned.experiment.workspace
    for found in (
        Run.get(workspace, tuned.id),
        workspace.get_run(tuned.id),
        next(tuned.experiment.get_runs(type="hyperdrive")),
        HyperDriveRun(tuned.experiment, tuned.id),
        Run.get(workspace, f"{tuned.id}_0").parent,
    ):
        assert isinstance(found, HyperDriveRun)
        assert found.hyperdrive_config._to_json() == tuned.hyperdrive_config._to_json()
    assert [run.id for run in tuned.experiment.get_runs()] == [tuned.id]


def test_waiting_shows_the_log_of_the_sweep(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = experiment.submit(sweep_over(tmp_path / "source", 0.1, 0.2), tags={"team": "blue"})
    details = run.wait_for_completion(show_output=True)
    said = capsys.readouterr().out
    assert details["status"] == "Completed"
    assert run.get_tags()["team"] == "blue"
    assert f"RunId: {run.id}\nWeb View: " in said
    assert "\nStreaming azureml-logs/hyperdrive.txt\n=====================================\n\n<START>[" in said
    assert re.search(rf"\[SCHEDULER\]\[INFO\].*{run.id}_1", said)
    assert said.index("<END>") < said.index("\nExecution Summary\n=================\n")
    shown = [line for line in said.splitlines() if line.startswith("<START>")]
    assert shown == run.get_diagnostics().splitlines()


def test_what_an_estimator_gives_and_the_sweep_samples_is_sampled(experiment: Experiment, tmp_path: Path) -> None:
    source = tmp_path / "source"
    here = Environment("here")
    here.python.user_managed_dependencies = True
    sweep_over(source, 0.1)  # writes the script
    estimator = Estimator(
        str(source), compute_target="local", entry_script="train.py", environment_definition=here,
        script_params={"--rate": 7, "--epochs": 1},
    )  # fmt: skip
    config = sweep_over(
        source, 0.1, run_config=None, estimator=estimator, max_total_runs=2,
        hyperparameter_sampling=RandomParameterSampling({"rate": uniform(0, 1)}, {"seed": 5}),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="script_params gives --rate"):
        run = experiment.submit(config)
    run.wait_for_completion()
    for child in run.get_children():
        rate = json.loads(run.get_hyperparameters()[child.id])["rate"]
        assert child.get_details()["runDefinition"]["arguments"] == ["--epochs", "1", "--rate", str(rate)]
        assert child.get_metrics()["acc"] == rate


def test_a_child_knows_its_sweep(experiment: Experiment, tmp_path: Path) -> None:
    text = TUNED + "\nrun.tag('parent', '%s %s' % (type(run.parent).__name__, run.parent.id))\n"
    run = swept(experiment, tmp_path / "source", 0.1, text=text)
    assert next(run.get_children()).get_tags()["parent"] == f"HyperDriveRun {run.id}"


def test_a_command_is_given_the_sampled_values_too(experiment: Experiment, tmp_path: Path) -> None:
    config = sweep_over(tmp_path / "source", 0.1, 0.2)
    config.run_config.command, config.run_config.script = "python train.py --epochs 1", None
    run = experiment.submit(config)
    run.wait_for_completion()
    assert {child.get_metrics()["acc"] for child in run.get_children()} == {0.1, 0.2}


def test_children_that_fail_are_named_and_the_best_of_the_others_is_found(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = experiment.submit(sweep_over(tmp_path / "source", 0.1, -1, 0.2))
    details = run.wait_for_completion(show_output=True)
    assert details["status"] == "Completed"
    assert f"{run.id}_1" in details["warnings"][0]["message"]
    assert f"\nWarnings:\n{details['warnings'][0]['message']}\n" in capsys.readouterr().out
    assert run.get_best_run_by_primary_metric(include_failed=False).id == f"{run.id}_2"
    assert run.get_metrics()[f"{run.id}_1"] == {}


def test_a_sweep_whose_children_all_fail_raises_their_cause(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.submit(sweep_over(tmp_path / "source", -1, -2))
    with pytest.raises(ActivityFailedException, match="a negative rate"):
        run.wait_for_completion()
    assert run.wait_for_completion(raise_on_error=False)["status"] == "Failed"
    assert run.get_best_run_by_primary_metric() is None


def test_a_metric_that_no_child_logs_is_said(experiment: Experiment, tmp_path: Path) -> None:
    run = swept(experiment, tmp_path / "source", 0.1, primary_metric_name="accuracy")
    said = " ".join(warning["message"] for warning in run.get_details()["warnings"])
    assert "accuracy" in said
    assert re.search(r"\bacc\b", said)
    assert run.get_best_run_by_primary_metric() is None
    assert [row["best_primary_metric"] for row in run.get_children_sorted_by_primary_metric()] == [None]
    assert run.get_children_sorted_by_primary_metric(discard_no_metric=True) == []


def test_a_primary_metric_that_nobody_logs_is_a_warning_of_a_plain_wait(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.submit(sweep_over(tmp_path / "source", 0.1, primary_metric_name="accuracy"))
    with pytest.warns(UserWarning, match=r"No child logged the primary metric 'accuracy'.*What they did log: 'acc'"):
        run.wait_for_completion()


def test_arguments_that_the_script_refuses_are_the_cause_of_the_sweep(experiment: Experiment, tmp_path: Path) -> None:
    text = "import argparse\nargparse.ArgumentParser('train.py').parse_args()\n"
    run = experiment.submit(sweep_over(tmp_path / "source", 0.1, text=text))
    with pytest.raises(ActivityFailedException, match=r"train\.py: error: unrecognized arguments: --rate"):
        run.wait_for_completion()
