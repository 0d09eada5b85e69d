"""Runs whose script is the test itself."""

import json
import socket
from pathlib import Path

import pytest

from azureml.core import Experiment, Workspace
from azureml.exceptions import AzureMLException, UserErrorException
from azureml.tensorboard import Tensorboard
from azureml.tensorboard.export import export_to_tensorboard
from azureml.widgets import RunDetails


def test_it_runs_at_once_and_keeps_its_outputs(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    assert run.get_status() == "Running"
    run.log("accuracy", 0.5)
    (tmp_path / "outputs" / "model.txt").write_text("model")
    run.upload_file("outputs/model.txt", "outputs/model.txt")
    run.complete()
    assert run.get_status() == "Completed"
    assert run.get_file_names() == ["outputs/model.txt"]
    assert run.get_metrics() == {"accuracy": 0.5}


def test_a_with_block_completes_or_fails_it(experiment: Experiment) -> None:
    with experiment.start_logging(snapshot_directory=None) as good:
        good.log("a", 1)
    assert good.get_status() == "Completed"
    with pytest.raises(ZeroDivisionError), experiment.start_logging(snapshot_directory=None) as bad:
        1 / 0  # noqa: B018
    assert bad.get_status() == "Failed"
    assert "ZeroDivisionError" in json.dumps(bad.get_details()["error"])
    with pytest.raises(SystemExit), experiment.start_logging(snapshot_directory=None) as left:
        raise SystemExit(0)
    assert left.get_status() == "Completed"


def test_metrics_take_their_v1_shapes(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.log("once", 1)
    run.log("mixed", 1)
    run.log("mixed", 2.5)
    run.log("text", "x")
    run.log_list("one", [7])
    run.log_list("none", [])
    run.log_row("rows", x=1)
    run.log_row("rows", x=3)
    run.log_table("table", {"x": [1, 2], "y": [3, 4]})
    (tmp_path / "pic.png").write_bytes(b"\x89PNG")
    run.log_image("image", path="pic.png")
    matrix = {
        "schema_type": "confusion_matrix",
        "schema_version": "1.0.0",
        "data": {"class_labels": ["a"], "matrix": [[1]]},
    }
    run.log_confusion_matrix("matrix", matrix)
    address = f"aml://artifactId/ExperimentRun/dcid.{run.id}/"
    assert run.get_metrics() == {
        "once": 1, "mixed": [1.0, 2.5], "text": "x", "one": 7, "rows": {"x": [1, 3]},
        "table": {"x": [1, 2], "y": [3, 4]}, "image": address + "pic.png", "matrix": address + "matrix",
    }  # fmt: skip
    assert run.get_metrics(name="once") == {"once": 1}
    run.complete()


def test_wrong_values_are_refused_where_they_are_logged(experiment: Experiment) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    for wrong in (
        lambda: run.log("a", [1]),
        lambda: run.log("", 1),
        lambda: run.log("a", 1, step="x"),
        lambda: Experiment(None, "no-workspace"),
        lambda: run.log_image("a"),
        lambda: run.upload_file("../x", __file__),
        lambda: run.upload_file("/x", __file__),
        lambda: run.upload_file("x", 3),
    ):
        with pytest.raises(UserErrorException):
            wrong()
    for wrong in (lambda: run.log_row("a", x=[1]), lambda: run.log_table("a", {"x": [1], "y": [1, 2]})):
        with pytest.raises(AzureMLException):
            wrong()
    with pytest.raises(TypeError, match="same length"):
        run.upload_files(["a"], [])
    run.complete()
    assert run.get_metrics() == {}


def test_tags_merge_and_properties_stay(experiment: Experiment) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.tag("a", 1)
    run.set_tags({"b": "2", "a": "3"})
    run.remove_tags(["b"])
    assert run.get_tags() == run.tags == {"a": "3"}
    run.add_properties({"p": "1"})
    with pytest.raises(UserErrorException, match="cannot be changed"):
        run.add_properties({"p": "2"})
    run.display_name = "shown"
    assert Experiment(experiment.workspace, "story").get_runs().__next__().display_name == "shown"
    run.complete()


def test_children_are_made_up_to_a_hundred(experiment: Experiment) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    children = run.create_children(tag_key="fold", tag_values=[1, 2])
    assert [child.get_tags() for child in children] == [{"fold": "1"}, {"fold": "2"}]
    with pytest.raises(UserErrorException, match="At most 100"):
        run.create_children(count=101)
    assert sorted(child.id for child in run.get_children(tags={"fold": "2"})) == [children[1].id]
    run.complete()


def test_a_name_that_is_taken_is_refused(experiment: Experiment) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.upload_file("a.txt", __file__)
    with pytest.raises(UserErrorException, match=r"a\.txt"):
        run.upload_file("a.txt", __file__)
    run.complete()


def test_metrics_are_exported_for_tensorboard_without_tensorflow(experiment: Experiment, tmp_path: Path) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        run.log("loss", 0.5)
        run.log("loss", 0.25)
    export_to_tensorboard(run, str(tmp_path / "board"))
    (events,) = (tmp_path / "board" / run.id).iterdir()
    assert events.read_bytes().count(b"loss") == 2


def test_a_port_that_is_taken_is_not_mistaken_for_this_tensorboard(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(UserErrorException, match="is taken"):
        Tensorboard([run], local_root=str(tmp_path / "synced"), port=other.getsockname()[1]).start()


@pytest.mark.parametrize("name", ["../../outside", "..", "/abs"])
def test_tensorboard_keeps_a_run_below_its_root_whatever_its_name(
    experiment: Experiment, tmp_path: Path, name: str
) -> None:
    run = experiment.start_logging(snapshot_directory=None, display_name=name)
    board = Tensorboard([run], local_root=str(tmp_path / "synced"), use_display_name=True)
    board._sync()
    assert len(list((tmp_path / "synced").iterdir())) == 1
    assert not (tmp_path.parent / "outside").exists()


def test_details_are_harmless_outside_a_notebook(experiment: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        run.log("loss", 0.5)
    RunDetails(run).show()
    assert f"Run {run.id}: Completed" in capsys.readouterr().out
    data = RunDetails(run).get_widget_data()
    assert (data["status"], data["run_metrics"][0]["values"]) == ("Completed", [0.5])
    with pytest.raises(UserErrorException, match="must be a Run"):
        RunDetails("run")


def test_workspaces_are_found_by_their_config_file(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Workspace.from_config().name == "default"
    assert capsys.readouterr().out.count("\n") == 1
    workspace.write_config(str(tmp_path))
    (tmp_path / "deep").mkdir()
    assert Workspace.from_config(str(tmp_path / "deep")).name == workspace.name
    with pytest.raises(UserErrorException, match="does not exist"):
        Workspace.from_config("nowhere.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(UserErrorException, match="not valid JSON"):
        Workspace.from_config("broken.json")
    assert workspace.name in Workspace.list()
    assert Workspace.get(workspace.name).get_details()["name"] == workspace.name
    assert Workspace.create(workspace.name, exist_ok=True, show_output=False).name == workspace.name
    with pytest.raises(AzureMLException, match="already"):
        Workspace.create(workspace.name)
    with pytest.raises(AzureMLException, match=r"no workspace 'absent-one'"):
        Workspace.get("absent-one")
    with pytest.raises(UserErrorException, match="not valid"):
        Workspace.get("../etc")
