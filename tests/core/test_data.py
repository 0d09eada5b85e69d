from typing import Any

import pytest

from runyard.core.data_plan import plan_data
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import DataItem


def _plan(**definition: Any) -> tuple[DataItem, ...]:
    return plan_data(RunDefinition.parse(definition), "run_1", "blobs")


def _input(mechanism: str = "Mount", **options: Any) -> dict[str, Any]:
    location = {"dataset": {"id": "d1", "name": None, "version": None}}
    return {"dataLocation": location, "mechanism": mechanism, "environmentVariableName": "mnist", **options}


def _output(mechanism: str = "Mount", path: str | None = None, **options: Any) -> dict[str, Any]:
    return {"outputLocation": {"dataPath": {"datastoreName": None, "relativePath": path}}, "mechanism": mechanism} | (
        options
    )


def test_a_dataset_becomes_an_item_that_names_it_by_its_id():
    (item,) = _plan(data={"mnist": _input("Download", overwrite=True)})
    assert (item.kind, item.mode, item.dataset_id) == ("dataset", "download", "d1")
    assert item.placeholder == "DatasetConsumptionConfig:mnist"
    assert item.overwrite


def test_every_item_has_all_the_variables_that_scripts_look_for():
    reference = {"dataStoreName": "blobs", "mode": "Mount"}
    items = _plan(data={"mnist": _input()}, dataReferences={"Ref": reference}, outputData={"out": _output()})
    assert {item.name: item.variables for item in items} == {
        "mnist": ("AZUREML_DATAREFERENCE_mnist", "mnist", "MNIST"),
        "Ref": ("AZUREML_DATAREFERENCE_Ref", "Ref", "REF"),
        "out": ("AZUREML_DATAREFERENCE_out", "out", "OUT"),
    }


def test_a_dataset_taken_directly_is_not_brought():
    assert _plan(data={"mnist": _input("Direct")}) == ()
    found = RunDefinition.parse({"data": {"mnist": _input("Direct")}}).data["mnist"]
    assert (found.dataset_id, found.mode) == ("d1", "direct")


def test_a_data_reference_becomes_an_item_of_its_datastore():
    entry = {"dataStoreName": "blobs", "mode": "Upload", "pathOnDataStore": "/mnist/", "pathOnCompute": "in/here"}
    (item,) = _plan(dataReferences={"Ref": entry})
    assert (item.kind, item.mode, item.datastore, item.path) == ("reference", "upload", "blobs", "mnist")
    assert (item.placeholder, item.path_on_compute) == ("$AZUREML_DATAREFERENCE_Ref", "in/here")


def test_an_output_without_a_destination_gets_a_folder_of_its_run():
    (item,) = _plan(outputData={"out": _output()})
    assert (item.kind, item.mode, item.datastore, item.path) == ("output", "mount", "blobs", "dataset/run_1/out")
    assert item.placeholder == "DatasetOutputConfig:out"


def test_the_words_in_braces_of_a_destination_are_filled_in():
    location = {"dataPath": {"datastoreName": "lake", "relativePath": "a/{run-id}/{output-name}/b"}}
    (item,) = _plan(outputData={"out": _output(outputLocation=location)})
    assert (item.datastore, item.path) == ("lake", "a/run_1/out/b")


def test_an_uploaded_output_knows_which_files_and_whether_to_replace():
    options = {"uploadOptions": {"overwrite": True, "sourceGlobs": ["**/*.csv"]}}
    (item,) = _plan(outputData={"out": _output("Upload", additionalOptions=options)})
    assert (item.mode, item.overwrite, item.globs) == ("upload", True, ("**/*.csv",))


def test_an_output_that_the_script_links_itself_is_not_brought():
    assert _plan(outputData={"out": _output("Link")}) == ()
    assert RunDefinition.parse({"outputData": {"out": _output("Link")}}).outputs["out"].mode == "link"


def test_a_dataset_called_path_leaves_the_path_alone():
    (item,) = _plan(data={"path": _input(environmentVariableName="path")})
    assert "PATH" not in item.variables


@pytest.mark.parametrize("chosen", ["AZUREML_RUN_TOKEN", "RUNYARD_URL", "RUNYARD_HOME", "LD_PRELOAD"])
def test_no_dataset_takes_the_place_of_a_variable_of_the_platform(chosen):
    (item,) = _plan(data={"mnist": _input(environmentVariableName=chosen)})
    assert item.variables == ("AZUREML_DATAREFERENCE_mnist", "mnist", "MNIST")
    (item,) = _plan(data={chosen: _input(environmentVariableName=chosen)})
    assert item.variables == (f"AZUREML_DATAREFERENCE_{chosen}",)


@pytest.mark.parametrize("chosen", ["a=b", "a\0b", "a b", "-x", "x" * 5000])
def test_a_variable_that_cannot_be_set_is_refused(chosen):
    with pytest.raises(InvalidArgument, match="environmentVariableName of 'mnist'"):
        _plan(data={"mnist": _input(environmentVariableName=chosen)})


def test_a_run_without_data_has_no_items():
    assert _plan(data=None, dataReferences={}, outputData=None) == ()


@pytest.mark.parametrize("path", ["../up", "a/../../b", "a\0b"])
def test_a_path_that_leaves_its_root_is_refused(path):
    reference = {"dataStoreName": "blobs", "mode": "Mount", "pathOnDataStore": path}
    for definition, named in (
        ({"dataReferences": {"ref": reference}}, "path_on_datastore of data reference 'ref'"),
        ({"data": {"mnist": _input(pathOnCompute=path)}}, "path_on_compute of 'mnist'"),
        ({"outputData": {"out": _output(path=path)}}, "destination of output 'out'"),
    ):
        with pytest.raises(InvalidArgument, match=f"{named} is .*, which leaves its root"):
            _plan(**definition)


@pytest.mark.parametrize("section", ["data", "dataReferences", "outputData"])
@pytest.mark.parametrize("name", ["../x", "a/b", ".", "", "a\0", "x" * 5000, "a\nb"])
def test_a_name_that_is_no_file_name_is_refused(section, name):
    with pytest.raises(InvalidArgument, match="is not a name"):
        _plan(**{section: {name: _input()}})


@pytest.mark.parametrize(
    "definition",
    [
        {"data": ["mnist"]},
        {"data": {"mnist": "d1"}},
        {"data": {"mnist": {"dataLocation": "d1"}}},
        {"data": {"mnist": {"dataLocation": {"dataset": {}}}}},
        {"data": {"mnist": _input("Teleport")}},
        {"dataReferences": {"mnist": {}}},
        {"outputData": {"mnist": {"outputLocation": 7}}},
        {"outputData": {"mnist": {"mechanism": "Hdfs"}}},
        {"outputData": {"mnist": _output(additionalOptions={"uploadOptions": {"sourceGlobs": [7]}})}},
    ],
)
def test_what_is_not_put_together_as_data_is_refused_by_its_name(definition):
    with pytest.raises(InvalidArgument, match=r"mnist|data of the run definition"):
        _plan(**definition)


def test_two_items_of_one_name_are_refused():
    with pytest.raises(InvalidArgument, match="'mnist'"):
        _plan(data={"mnist": _input()}, outputData={"mnist": _output()})
