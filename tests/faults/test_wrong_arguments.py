"""What a user can get wrong before anything runs: each is refused at once, naming the argument."""

import json
from pathlib import Path

import pytest

from azureml.core import Experiment, Run, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.runconfig import MpiConfiguration
from azureml.exceptions import (
    AzureMLException,
    ExperimentExecutionException,
    TrainingException,
    UserErrorException,
)
from azureml.train.estimator import Estimator
from tests.faults.yard import Yard, this_python

ESCAPES = ("../outside", "a/../../outside", "/etc/passwd", "nul\0byte")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", '{"subscription_id": "s"}', json.dumps({"workspace_name": 7}), "\0"],
    ids=["cut off", "a list", "null", "keys missing", "wrong type", "binary"],
)
def test_a_broken_config_file_is_named(shared_yard: Yard, tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserErrorException, match=r"config\.json"):
        Workspace.from_config(path=str(file))


def test_an_explicit_config_that_is_missing_is_an_error(shared_yard: Yard, tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="nowhere"):
        Workspace.from_config(path=str(tmp_path / "nowhere" / "config.json"))


def test_an_unknown_compute_target_is_named(shared_yard: Yard) -> None:
    with pytest.raises(AzureMLException, match="gpu-2"):
        shared_yard.submit("", compute_target="gpu-2")


def test_more_nodes_than_the_cluster_has_are_refused(shared_yard: Yard) -> None:
    options = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=1)
    ComputeTarget.create(shared_yard.workspace, "one-node", options).wait_for_completion()
    with pytest.raises(AzureMLException, match=r"node_count.*1.*one-node"):
        shared_yard.submit("", compute_target="one-node", distributed_job_config=MpiConfiguration(node_count=2))


def test_an_entry_script_that_is_absent_is_refused_at_submit(shared_yard: Yard, tmp_path: Path) -> None:
    config = ScriptRunConfig(source_directory=str(tmp_path), script="absent.py", environment=this_python())
    with pytest.raises(ExperimentExecutionException, match=r"absent\.py.*It holds no \*\.py file\."):
        shared_yard.submit_config(config)
    (tmp_path / "train.py").touch()
    with pytest.raises(ExperimentExecutionException, match=r"Scripts there: 'train\.py'\."):
        shared_yard.submit_config(config)
    config.script = "trian.py"
    with pytest.raises(ExperimentExecutionException, match=r"Did you mean 'train\.py'\?"):
        shared_yard.submit_config(config)


@pytest.mark.parametrize("script", ["../outside.py", "sub/../../outside.py"])
def test_an_entry_script_outside_the_source_folder_is_refused(shared_yard: Yard, tmp_path: Path, script: str) -> None:
    (tmp_path / "outside.py").write_text("print(1)", encoding="utf-8")
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    config = ScriptRunConfig(source_directory=str(source), script=script, environment=this_python())
    with pytest.raises(ExperimentExecutionException, match=r"outside\.py"):
        shared_yard.submit_config(config)


def test_through_an_estimator_the_missing_script_is_a_training_error(shared_yard: Yard, tmp_path: Path) -> None:
    with pytest.raises(TrainingException, match=r"absent\.py"):
        shared_yard.submit_config(
            Estimator(source_directory=str(tmp_path), compute_target="local", entry_script="absent.py")
        )


@pytest.mark.parametrize("name", ["../evil", "a/b", "", "x" * 300, "nul\0", "\n", "-begins-with-a-dash"])
def test_an_experiment_name_that_could_leave_its_place_is_refused(shared_yard: Yard, name: str) -> None:
    with pytest.raises(UserErrorException):
        Experiment(shared_yard.workspace, name)


@pytest.fixture(scope="module")
def open_run(shared_yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Experiment(shared_yard.workspace, "interactive").start_logging(
        snapshot_directory=None, outputs=str(tmp_path_factory.mktemp("outputs"))
    )
    return run


@pytest.mark.parametrize("name", ESCAPES)
def test_a_file_name_that_leaves_the_run_is_refused(open_run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").write_text("x", encoding="utf-8")
    with pytest.raises(AzureMLException):
        open_run.upload_file(name, str(tmp_path / "file.txt"))
    assert open_run.get_file_names() == []


@pytest.mark.parametrize("name", ESCAPES)
def test_a_download_of_a_name_outside_the_run_is_refused(open_run: Run, tmp_path: Path, name: str) -> None:
    with pytest.raises(AzureMLException):
        open_run.download_file(name, str(tmp_path / "got"))
    assert not (tmp_path / "got").exists()


@pytest.mark.parametrize("target", ["../outside", "a/../../outside", "nul\0byte"])
def test_an_upload_stays_inside_its_datastore(shared_yard: Yard, tmp_path: Path, target: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file.txt").write_text("x", encoding="utf-8")
    with pytest.raises((AzureMLException, ValueError)):
        shared_yard.workspace.get_default_datastore().upload(str(tmp_path / "data"), target_path=target)
    assert not list(shared_yard.home.rglob("outside"))


def test_an_absolute_target_lands_below_the_datastore(shared_yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file.txt").write_text("x", encoding="utf-8")
    outside = tmp_path / "elsewhere"
    shared_yard.workspace.get_default_datastore().upload(str(tmp_path / "data"), target_path=str(outside))
    assert not outside.exists()
    landed = list((shared_yard.home / "datastores").rglob("elsewhere/file.txt"))
    assert len(landed) == 1
