"""Compute, data, models, environments and secrets of a workspace, as a user's script meets them."""

from pathlib import Path

import pytest

from azureml.core import Dataset, Datastore, Environment, Experiment, Model, ScriptRunConfig
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.compute_target import ComputeTargetException
from azureml.core.resource_configuration import ResourceConfiguration
from azureml.exceptions import UserErrorException, WebserviceException
from azureml.opendatasets import MNIST
from runyard.core.definitions.run import RunDefinition
from runyard.environments.planning.environment_spec import plan_environment

COUNTS = {"preparing": 0, "running": 0, "idle": 0, "unusable": 0, "leaving": 0, "preempted": 0}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_cluster_is_looked_for_made_waited_for_and_found(workspace, capsys):
    with pytest.raises(ComputeTargetException) as missing:
        ComputeTarget(workspace=workspace, name="gpucluster")
    assert missing.value.message.startswith("ComputeTargetNotFound")
    settings = AmlCompute.provisioning_configuration(vm_size="STANDARD_NC6", max_nodes=4)
    made = ComputeTarget.create(workspace, "gpucluster", settings)
    made.wait_for_completion(show_output=True, min_node_count=None, timeout_in_minutes=20)
    assert capsys.readouterr().out == (
        "Creating\nSucceeded\nAmlCompute wait for completion finished\n\n"
        "Minimum number of nodes requested have been provisioned\n"
    )
    found = ComputeTarget(workspace=workspace, name="gpucluster")
    assert isinstance(found, AmlCompute)
    assert found.get_status().serialize()["nodeStateCounts"] == {f"{kind}NodeCount": 0 for kind in COUNTS}
    assert [target.name for target in ComputeTarget.list(workspace)] == ["gpucluster"]


def test_nodes_are_listed_with_the_keys_of_v1(workspace):
    made = AmlCompute.create(workspace, "ready", AmlCompute.provisioning_configuration(min_nodes=1, max_nodes=1))
    made.wait_for_completion(min_node_count=1, timeout_in_minutes=1)
    (node,) = made.list_nodes()
    assert set(node) == {"nodeId", "port", "publicIpAddress", "privateIpAddress", "nodeState", "runId"}
    assert (node["nodeId"], node["runId"]) == ("ready-0", None)


def test_a_cluster_is_changed_and_removed(workspace):
    settings = AmlCompute.provisioning_configuration(max_nodes=1)
    made = ComputeTarget.create(workspace, "small", settings)
    made.update(max_nodes=3, idle_seconds_before_scaledown=60)
    scale = made.get_status().serialize()["scaleSettings"]
    assert scale == {"minNodeCount": 0, "maxNodeCount": 3, "nodeIdleTimeBeforeScaleDown": "PT60S"}
    with pytest.raises(ComputeTargetException, match="cannot be detached"):
        made.detach()
    made.delete()
    with pytest.raises(ComputeTargetException, match="ComputeTargetNotFound"):
        AmlCompute(workspace, "small")


def test_uploads_skip_what_is_there_unless_told_to_overwrite(workspace, here, capsys):
    write(here / "data", {"x.txt": "old", "sub/y.txt": "y"})
    store = workspace.get_default_datastore()
    reference = store.upload("data", target_path="up")
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Uploading an estimated of 2 files"
    assert said[-1] == "Uploaded 2 files"
    assert "Uploaded data/x.txt, 1 files out of an estimated total of 2" in said
    assert (reference.path_on_datastore, reference.datastore.name) == ("up", "workspaceblobstore")
    write(here / "data", {"x.txt": "new"})
    store.upload("data", target_path="up", show_progress=False)
    assert (store.download("first", prefix="up", show_progress=False), (here / "first/up/x.txt").read_text()) == (
        2, "old")  # fmt: skip
    store.upload("data", target_path="up", overwrite=True, show_progress=False)
    store.download("second", show_progress=False)
    assert (here / "second/up/x.txt").read_text() == "new"


def test_files_are_placed_below_their_common_folder(workspace, here):
    write(here, {"one/a.txt": "a", "one/two/b.txt": "b"})
    store = Datastore.get(workspace, "workspacefilestore")
    store.upload_files(["one/a.txt", "one/two/b.txt"], target_path="placed", show_progress=False)
    assert [file["path"] for file in store._files("placed")] == ["placed/a.txt", "placed/two/b.txt"]


def test_datasets_have_versions_and_are_found_by_name_and_id(workspace, here):
    write(here / "data", {"x.gz": "x", "deep/y.gz": "y"})
    store = workspace.get_default_datastore()
    store.upload("data", target_path="versions", show_progress=False)
    first = Dataset.File.from_files((store, "versions")).register(workspace, "my data", description="d")
    other = Dataset.File.from_files((store, "versions/**/y.gz"))
    assert (first.name, first.version, first.to_path()) == ("my data", 1, ["/deep/y.gz", "/x.gz"])
    with pytest.raises(UserErrorException, match="create_new_version=True"):
        other.register(workspace, "my data")
    second = other.register(workspace, "my data", create_new_version=True)
    assert (second.version, Dataset.get_by_name(workspace, "my data").to_path()) == (2, ["/deep/y.gz"])
    assert Dataset.get_by_name(workspace, "my data", version=1).id == first.id
    assert Dataset.get_by_id(workspace, second.id).version == 2
    assert first.register(workspace, "my data", create_new_version=True).version == 3
    with pytest.raises(UserErrorException, match="no dataset 'absent'"):
        Dataset.get_by_name(workspace, "absent")


def test_a_dataset_is_downloaded_once_and_mounted_read_only(workspace, here):
    write(here / "data", {"x.gz": "x"})
    store = workspace.get_default_datastore()
    store.upload("data", target_path="fetched", show_progress=False)
    made = Dataset.File.from_files((store, "fetched/*"))
    assert made.download("there") == [str(here / "there/x.gz")]
    with pytest.raises(UserErrorException, match="overwrite=True"):
        made.download("there")
    with made.mount() as mounted:
        file = Path(mounted.mount_point, "x.gz")
        assert (file.read_text(), file.stat().st_mode & 0o222) == ("x", 0)
    assert not file.exists()


def test_a_model_is_registered_listed_downloaded_and_removed(workspace, here, capsys):
    write(here / "outputs/model", {"a.bin": "a", "deep/b.bin": "b"})
    resources = ResourceConfiguration(cpu=1, memory_in_gb=0.5)
    first = Model.register(
        workspace, "outputs/model", "net", tags={"kind": "mlp"}, model_framework=Model.Framework.TENSORFLOW,
        model_framework_version="1.13", resource_configuration=resources,
    )  # fmt: skip
    assert capsys.readouterr().out == "Registering model net\n"
    second = Model.register(workspace, "outputs/model/a.bin", "net")
    assert ([first.id, second.id], Model(workspace, "net").version) == (["net:1", "net:2"], 2)
    assert first.download("one") == str(Path("one/model"))
    assert second.download("two") == str(Path("two/a.bin"))
    assert (here / "one/model/deep/b.bin").read_text() == "b"
    with pytest.raises(WebserviceException, match="exist_ok=True"):
        first.download("one")
    assert [model.version for model in Model.list(workspace, tags=[["kind", "mlp"]])] == [1]
    assert [model.version for model in Model.list(workspace, name="net")] == [2, 1]
    again = Model(workspace, id="net:1")
    assert (again.model_framework, again.model_framework_version) == ("TensorFlow", "1.13")
    assert again.resource_configuration.memory_in_gb == 0.5
    second.delete()
    assert Model(workspace, "net").version == 1
    with pytest.raises(WebserviceException, match="ModelNotFound"):
        Model(workspace, "absent")


def test_tags_of_a_model_change_and_its_properties_do_not(workspace, here):
    write(here, {"m.bin": "m"})
    made = Model.register(workspace, "m.bin", "tagged", tags={"a": 1}, properties={"p": "1"})
    made.add_tags({"b": 2})
    made.remove_tags(["a"])
    made.add_properties({"q": "2"})
    with pytest.raises(WebserviceException, match="cannot change"):
        made.add_properties({"p": "2"})
    found = Model(workspace, "tagged")
    assert (found.tags, found.properties) == ({"b": "2"}, {"p": "1", "q": "2"})


def test_a_framework_version_needs_a_framework(workspace, here):
    write(here, {"m.bin": "m"})
    with pytest.raises(WebserviceException, match="needs model_framework"):
        Model.register(workspace, "m.bin", "odd", model_framework_version="1")


def test_environments_get_a_version_for_each_change(workspace):
    made = Environment("trained")
    made.docker.base_image_registry.password = "hidden"
    assert [made.register(workspace).version, made.register(workspace).version] == ["1", "1"]
    made.python.conda_dependencies.add_pip_package("numpy")
    assert made.register(workspace).version == "2"
    stored = Environment.get(workspace, "trained", version=1)
    assert "numpy" not in list(stored.python.conda_dependencies.pip_packages)
    assert stored.docker.base_image_registry.password is None
    assert [name for name in Environment.list(workspace) if not name.startswith("AzureML-")] == ["trained"]
    with pytest.raises(UserErrorException, match="no environment 'absent'"):
        Environment.get(workspace, "absent")


def test_secrets_come_back_by_name_alone(workspace):
    vault = workspace.get_default_keyvault()
    vault.set_secret("password", "pä$$")
    for name in ("../x", "", None):
        with pytest.raises(UserErrorException, match="name must be"):
            vault.set_secret(name, "v")
    assert (vault.get_secret("password"), vault.list_secrets()) == ("pä$$", [{"name": "password"}])
    assert vault.get_secrets(["password", "absent"]) == {"password": "pä$$", "absent": None}
    vault.delete_secret("password")
    assert vault.list_secrets() == []


SCRIPT = """
import os, sys
from azureml.core import Model, Run

run = Run.get_context()
mounted, read_directly = run.input_datasets["mounted"], run.input_datasets["directly"]
assert sys.argv[1] == mounted and sys.argv[2] == read_directly.id
assert read_directly.to_path() == ["/x.gz"] and os.listdir(mounted) == ["x.gz"]
assert Model.get_model_path("inside") == os.path.join("azureml-models", "inside", "1", "m.bin")
"""


def test_a_script_gets_its_datasets_and_models(workspace, here):
    write(here, {"data/x.gz": "x", "m.bin": "m", "source/train.py": SCRIPT})
    store = workspace.get_default_datastore()
    store.upload("data", target_path="inputs", show_progress=False)
    dataset = Dataset.File.from_files((store, "inputs"))
    Model.register(workspace, "m.bin", "inside")
    environment = Environment("as it is")
    environment.python.user_managed_dependencies = True
    inputs = [dataset.as_named_input("mounted").as_mount(), dataset.as_named_input("directly")]
    config = ScriptRunConfig("source", "train.py", arguments=inputs, environment=environment)
    details = Experiment(workspace, "inputs").submit(config).wait_for_completion()
    assert details["status"] == "Completed"


def test_curated_environments_are_there_and_cannot_be_changed(workspace):
    listed = Environment.list(workspace)
    assert {"AzureML-Minimal", "AzureML-Tutorial", "AzureML-TensorFlow-1.13-GPU", "AzureML-PyTorch-1.6-CPU"} <= set(
        listed
    )
    minimal = Environment.get(workspace, "AzureML-Minimal")
    assert (minimal.name, minimal.python.conda_dependencies.get_python_version()) == ("AzureML-Minimal", "3.6.2")
    newer = Environment.get(workspace, "AzureML-sklearn-1.5").python.conda_dependencies
    assert "numpy>=1.22,<1.23" in newer.pip_packages  # scripts of its time say np.str, which 1.24 dropped
    with pytest.raises(UserErrorException, match="begins with 'AzureML-'"):
        minimal.register(workspace)
    assert minimal.clone("mine").register(workspace).version == "1"
    with pytest.raises(Exception, match="no environment 'AzureML-Nothing'"):
        Environment.get(workspace, "AzureML-Nothing")


@pytest.mark.parametrize("gpu_present", [False, True])
def test_every_curated_environment_can_be_planned(workspace, gpu_present):
    for name, environment in Environment.list(workspace).items():
        definition = {"environment": environment._to_object()}
        assert plan_environment(RunDefinition.parse(definition), gpu_present=gpu_present).python, name


def test_the_digits_of_the_open_datasets_are_four_files_of_the_web():
    sources = MNIST.get_file_dataset()._sources
    assert [source["url"].rpartition("/")[2] for source in sources] == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ]
    assert len(MNIST.get_file_dataset(dataset_filter="test")._sources) == 2
    with pytest.raises(UserErrorException, match="'all', 'train' or 'test', got 'both'"):
        MNIST.get_file_dataset(dataset_filter="both")
    with pytest.raises(NotImplementedError, match="register_azure_blob_container"):
        MNIST.get_tabular_dataset()
