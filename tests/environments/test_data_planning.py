from pathlib import Path
from typing import Any

import pytest

from runyard.errors import InvalidArgument, NotFound
from runyard.planning.data import dataset_ids, plan_data
from runyard.planning.data_layout import fixed_part, path_in_dataset

WEB = {"sources": [{"url": "http://data.example/mnist/a.gz"}]}
STORED = {"sources": [{"datastore": "blobs", "path": "/mnist/**"}]}


def _folder(name: str) -> Path:
    if name != "blobs":
        raise NotFound(f"There is no datastore {name!r}.")
    return Path("/stores/blobs")


def _input(mechanism: str = "Mount", **options: Any) -> dict[str, Any]:
    location = {"dataset": {"id": "d1", "name": None, "version": None}}
    return {"dataLocation": location, "mechanism": mechanism, "environmentVariableName": "mnist", **options}


def test_a_web_dataset_becomes_an_item_with_its_addresses():
    (item,) = plan_data({"data": {"mnist": _input()}}, {"d1": WEB}, _folder)
    assert item.source == {"urls": ["http://data.example/mnist/a.gz"]}
    assert (item.mode, item.placeholder) == ("mount", "DatasetConsumptionConfig:mnist")
    assert set(item.variables) == {"mnist", "MNIST"}


def test_a_dataset_on_a_datastore_keeps_its_glob():
    (item,) = plan_data({"data": {"mnist": _input("Download")}}, {"d1": STORED}, _folder)
    assert item.source == {"files": [["blobs", "/stores/blobs", "mnist/**"]]}
    assert item.mode == "download"


def test_a_dataset_taken_directly_is_not_brought():
    definition = {"data": {"mnist": _input("Direct")}}
    assert plan_data(definition, {"d1": WEB}, _folder) == ()
    assert dataset_ids(definition) == ["d1"]


def test_a_data_reference_becomes_an_item_with_all_its_variables():
    entry = {"dataStoreName": "blobs", "mode": "Mount", "pathOnDataStore": "mnist/", "pathOnCompute": None}
    (item,) = plan_data({"dataReferences": {"Ref": entry}}, {}, _folder)
    assert item.placeholder == "$AZUREML_DATAREFERENCE_Ref"
    assert item.variables == ("AZUREML_DATAREFERENCE_Ref", "Ref", "REF")
    assert item.source == {"folder": "/stores/blobs", "path": "mnist", "datastore": "blobs"}


def test_a_dataset_called_path_leaves_the_path_alone():
    entry = _input(environmentVariableName="path")
    (item,) = plan_data({"data": {"path": entry}}, {"d1": WEB}, _folder)
    assert item.variables == ("path",)


def test_a_run_without_data_has_no_items():
    assert plan_data({"data": None, "dataReferences": {}}, {}, _folder) == ()


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x/y", "http://", "http://a b/c", "x", "http://[broken/", ""]
)
def test_an_address_that_is_not_of_the_web_is_refused(url):
    with pytest.raises(InvalidArgument, match="'mnist'"):
        plan_data({"data": {"mnist": _input()}}, {"d1": {"sources": [{"url": url}]}}, _folder)


def test_an_address_with_a_password_is_refused_without_telling_it():
    with pytest.raises(InvalidArgument, match="password") as refusal:
        plan_data({"data": {"mnist": _input()}}, {"d1": {"sources": [{"url": "http://me:secret@h/x"}]}}, _folder)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("path", ["../up", "a/../../b", "a\0b"])
def test_a_path_that_leaves_its_root_is_refused(path):
    reference = {"dataStoreName": "blobs", "mode": "Mount", "pathOnDataStore": path}
    with pytest.raises(InvalidArgument, match="leaves its root"):
        plan_data({"dataReferences": {"ref": reference}}, {}, _folder)
    with pytest.raises(InvalidArgument, match="path_on_compute"):
        plan_data({"data": {"mnist": _input(pathOnCompute=path)}}, {"d1": WEB}, _folder)
    stored = {"sources": [{"datastore": "blobs", "path": path}]}
    with pytest.raises(InvalidArgument, match="leaves its root"):
        plan_data({"data": {"mnist": _input()}}, {"d1": stored}, _folder)


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "", "a\0"])
def test_a_name_that_is_no_file_name_is_refused(name):
    with pytest.raises(InvalidArgument, match="is not a name"):
        plan_data({"data": {name: _input()}}, {"d1": WEB}, _folder)


def test_an_unknown_datastore_is_named():
    reference = {"dataStoreName": "gone", "mode": "Mount", "pathOnDataStore": ""}
    with pytest.raises(NotFound, match="'gone'"):
        plan_data({"dataReferences": {"ref": reference}}, {}, _folder)


@pytest.mark.parametrize(
    ("url", "alone", "among_others"),
    [
        ("http://h:8/exdb/x.gz", "x.gz", "http%3A/%2Fh%3A8/exdb/x.gz"),
        ("https://h/a%20b/c d", "c%20d", "https%3A/%2Fh/a%20b/c%20d"),
        ("https://user:secret@h/x", "x", "https%3A/%2Fh/x"),
        ("http://h/../..", "%2E%2E", "http%3A/%2Fh/%2E%2E/%2E%2E"),
        ("http://h", "index", "http%3A/%2Fh/index"),
        ("http://h/x.csv?part=1", "x.csv%3Fpart=1", "http%3A/%2Fh/x.csv%3Fpart=1"),
    ],
)
def test_each_address_has_a_safe_place_in_its_dataset(url, alone, among_others):
    assert path_in_dataset([url], url) == alone
    assert path_in_dataset([url, "http://other/x"], url) == among_others


@pytest.mark.parametrize(
    ("pattern", "fixed"), [("a/b/*.gz", "a/b"), ("a/**", "a"), ("**", ""), ("a/b.txt", "a/b.txt"), ("/a/", "a")]
)
def test_a_glob_begins_below_its_fixed_part(pattern, fixed):
    assert fixed_part(pattern) == fixed
