"""Model.profile and Model.package, as a notebook uses them."""

import json
import re
from pathlib import Path

import pytest

from azureml.core import Dataset, Model, Workspace
from azureml.core.profile import ModelProfile
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior
from azureml.exceptions import UserErrorException, WebserviceException
from tests.sdk.served import FAILING, a_model, echo_script

pytestmark = pytest.mark.slow


@pytest.fixture
def model(workspace: Workspace, tmp_path: Path) -> Model:
    return a_model(workspace, tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def requests_table(workspace: Workspace, folder: Path, count: int) -> Dataset:
    """A line is a request, as v1's notebooks write them."""
    (folder / "requests.txt").write_text("\n".join([json.dumps({"data": [[1, 2], [3, 4]]})] * count))
    store = workspace.get_default_datastore()
    store.upload_files([str(folder / "requests.txt")], target_path="sample", show_progress=False)
    return Dataset.Tabular.from_delimited_files(
        [(store, "sample/requests.txt")], separator="\n", infer_column_types=True,
        header=PromoteHeadersBehavior.NO_HEADERS,
    ).register(workspace, "requests", create_new_version=True)  # fmt: skip


def test_a_table_may_have_a_whole_line_as_its_value(workspace, tmp_path):
    frame = requests_table(workspace, tmp_path, 3).to_pandas_dataframe()
    assert frame.shape == (3, 1)
    assert json.loads(frame.iloc[2, 0]) == {"data": [[1, 2], [3, 4]]}


def test_a_profile_measures_every_request(workspace, model, source, tmp_path, capsys):
    table = requests_table(workspace, tmp_path, 20)
    profile = Model.profile(workspace, "measured", [model], echo_script(source, "x"), table, cpu=1, memory_in_gb=0.5)
    profile.wait_for_completion(True)
    details = profile.get_details()
    assert profile.state == "Succeeded"
    assert profile.total_queries == profile.success_queries >= 20
    assert details["latencyPercentile50InMs"] <= details["latencyPercentile99InMs"]
    assert details["maxUtilizedMemory"] > 0
    assert (profile.requested_cpu, profile.input_dataset_id) == (1, table.id)
    assert re.search(r"Running\.*\nSucceeded\naverageLatencyInMs +\d+\.\d+\n", capsys.readouterr().out)
    assert ModelProfile(workspace, "measured").serialize()["modelIds"] == ["net:1"]


def test_a_text_is_the_one_request_as_in_the_oldest_sdk(workspace, model, source):
    profile = Model.profile(workspace, "once", [model], echo_script(source, "x"), '{"a": 1}')
    profile.wait_for_profiling()
    assert profile.success_rate == 100
    assert set(profile.get_results()) == {"cpu", "memoryInGB"}
    by_name = Model.profile(workspace, "named", [model], echo_script(source, "x"), input_data='{"a": 1}')
    assert by_name.get_results() is not None


def test_a_profile_that_cannot_be_is_told(workspace, model, source, tmp_path):
    script = echo_script(source, "x")
    for settings, said in (({"cpu": 9}, "cpu must be from 0.1 to 3.5"), ({"memory_in_gb": 0}, "memory_in_gb")):
        with pytest.raises(UserErrorException, match=said):
            Model.profile(workspace, "odd", [model], script, "1", **settings)
    with pytest.raises(UserErrorException, match="input_dataset must be a TabularDataset"):
        Model.profile(workspace, "odd", [model], script, [1, 2])
    with pytest.raises(WebserviceException, match="ModelProfileNotFound"):
        ModelProfile(workspace, "absent")
    (source / "score.py").write_text(FAILING)
    profile = Model.profile(workspace, "failing", [model], script, "1")
    with pytest.raises(WebserviceException, match="the weights are of another shape"):
        profile.wait_for_completion()
    assert profile.state == "Failed"


def test_a_package_is_a_folder_to_build_an_image_from(workspace, model, source, tmp_path):
    package = Model.package(workspace, [model], echo_script(source, "x"), generate_dockerfile=True)
    package.wait_for_creation(show_output=True)
    assert package.state == "Succeeded"
    package.save(str(tmp_path / "package"))
    names = {path.name for path in (tmp_path / "package").rglob("*")}
    assert {"Dockerfile", "score.py", "weights.bin"} <= names
    assert package.serialize()["state"] == "Succeeded"
    with pytest.raises(WebserviceException, match="docker build"):
        package.pull()
    with pytest.raises(UserErrorException, match="no model_framework"):
        Model.package(workspace, [model])
