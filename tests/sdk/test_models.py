"""The registry of models, as a user's script meets it."""

import json
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Dataset, Experiment, Model, Workspace
from azureml.core.resource_configuration import ResourceConfiguration
from azureml.exceptions import ModelNotFoundException, UserErrorException, WebserviceException
from tests.sdk.yard import submit


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A folder with a model of several files and one of a single file."""
    for name in ("outputs/model/a.bin", "outputs/model/deep/b.bin", "outputs/single/only.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path / "outputs"


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_downloads_keep_the_last_segment_and_return_what_all_files_share(workspace, outputs, tmp_path):
    Model.register(workspace, "outputs/model", "folder")
    Model.register(workspace, "outputs/model/a.bin", "file")
    Model.register(workspace, "outputs/single/", "one")
    target = tmp_path / "target"
    for name, expected in (("folder", "model"), ("file", "a.bin"), ("one", "single/only.bin")):
        got = Model(workspace, name).download(str(target / name))
        assert got == str(target / name / expected)
    assert tree(target) == ["file/a.bin", "folder/model/a.bin", "folder/model/deep/b.bin", "one/single/only.bin"]
    with pytest.raises(WebserviceException, match="exists already"):
        Model(workspace, "file").download(str(target / "file"))
    Model(workspace, "file").download(str(target / "file"), exist_ok=True)


def test_versions_grow_and_ids_name_them(workspace, outputs, capsys):
    made = [Model.register(workspace, "outputs/model", "net") for _ in range(3)]
    assert capsys.readouterr().out.count("Registering model net\n") == 3
    assert [(one.version, one.id) for one in made] == [(1, "net:1"), (2, "net:2"), (3, "net:3")]
    assert Model(workspace, "net").version == 3
    assert Model(workspace, "net", version=2).version == Model(workspace, id="net:2").version == 2
    made[2].delete()
    assert Model(workspace, "net").version == 2
    assert [one.version for one in Model.list(workspace, "net")] == [2, 1]
    assert [one.id for one in Model.list(workspace, latest=True)] == ["net:2"]
    with pytest.raises(WebserviceException, match=r"ModelNotFound: .* with version 3 .*; its versions are 1, 2"):
        Model(workspace, "net", version=3)
    with pytest.raises(WebserviceException, match=r"ModelNotFound: .* Known: 'net'"):
        Model(workspace, "absent")


def test_a_model_says_all_that_it_was_registered_with(workspace, outputs):
    store = workspace.get_default_datastore()
    store.upload_files(["outputs/model/a.bin"], target_path="sample", show_progress=False)
    dataset = Dataset.File.from_files((store, "sample/a.bin"))
    made = Model.register(
        workspace, "outputs/model", "net", tags={"a": 1}, properties={"p": "1"}, description="d",
        datasets=[(Dataset.Scenario.TRAINING, dataset)], model_framework=Model.Framework.SCIKITLEARN,
        model_framework_version="1.5", sample_input_dataset=dataset,
        resource_configuration=ResourceConfiguration(1, 0.5),
    )  # fmt: skip
    found = Model(workspace, "net", tags=[["a", "1"]], properties=["p"], model_framework="ScikitLearn")
    assert (found.tags, found.properties, found.description) == ({"a": "1"}, {"p": "1"}, "d")
    assert (found.model_framework, found.model_framework_version) == ("ScikitLearn", "1.5")
    assert found.resource_configuration.serialize() == {"cpu": 1, "memoryInGB": 0.5, "gpu": None}
    assert [one.id for one in found.datasets["training"]] == [dataset.id] == [found.sample_input_dataset.id]
    assert Model.list(workspace, dataset_id=dataset.id)[0].id == made.id
    assert json.loads(json.dumps(found.serialize()))["frameworkVersion"] == "1.5"
    assert Model.deserialize(workspace, found.serialize()).id == "net:1"
    assert found.created_time.tzinfo is not None
    assert found._asset["body"]["client"]["python"].startswith("3.")
    with pytest.raises(WebserviceException, match="needs model_framework"):
        Model.register(workspace, "outputs/model", "net", model_framework_version="1")


def test_tags_change_and_properties_do_not(workspace, outputs):
    made = Model.register(workspace, "outputs/model", "net", tags={"a": "1"}, properties={"p": "1"})
    made.add_tags({"b": 2})
    made.remove_tags("a")
    made.add_properties({"q": "2"})
    made.update_tags_properties(add_tags={"c": "3"}, remove_tags=["b"], add_properties={"r": "3"})
    found = Model(workspace, "net")
    assert (found.tags, found.properties) == ({"c": "3"}, {"p": "1", "q": "2", "r": "3"})
    with pytest.raises(WebserviceException, match="'p' is set already"):
        made.add_properties({"p": "2"})
    made.update(tags={"z": "9"}, description="new", resource_configuration=ResourceConfiguration(2))
    found = Model(workspace, "net")
    assert (found.tags, found.description, found.resource_configuration.cpu) == ({"z": "9"}, "new", 2)
    found.delete()
    with pytest.raises(WebserviceException):
        made.add_tags({"late": "1"})


@pytest.mark.parametrize("name", ["", "../x", "a b", "a/b", "-a", "x" * 256, "a\0b"])
def test_names_that_no_model_can_have_are_refused(workspace, outputs, name):
    with pytest.raises(WebserviceException, match="model name"):
        Model.register(workspace, "outputs/model", name)


def test_a_path_that_holds_no_files_is_refused(workspace, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="model_path"):
        Model.register(workspace, "absent", "net")
    with pytest.raises(UserErrorException, match="without files"):
        Model.register(workspace, "empty", "net")


def test_a_model_of_a_run_leads_back_to_it(experiment: Experiment, workspace: Workspace, tmp_path: Path) -> None:
    script = """
import os
from azureml.core import Model, Run
os.makedirs("outputs/model")
open("outputs/model/w.txt", "w").write("w")
run = Run.get_context()
run.upload_folder("outputs/model", "outputs/model")
made = run.register_model("net", "outputs/model", model_framework="ScikitLearn", tags={"from": "run"})
print(Model.get_model_path("net"))
"""
    run: Any = submit(experiment, tmp_path / "code", script)
    run.wait_for_completion()
    found = Model(workspace, "net", run_id=run.id)
    assert (found.run_id, found.run.id, found.experiment_name) == (run.id, run.id, "story")
    assert found.tags == {"from": "run"}
    assert found.download(str(tmp_path / "got")) == str(tmp_path / "got/model/w.txt")
    assert (tmp_path / "got/model/w.txt").read_text() == "w"
    logs = run.get_all_logs(str(tmp_path / "logs"))
    # As in a scoring script: the folder that was registered, though download() names the one file of it.
    assert "azureml-models/net/1/model\n" in "".join(Path(log).read_text() for log in logs)
    with pytest.raises(ModelNotFoundException):
        Model.get_model_path("net")
