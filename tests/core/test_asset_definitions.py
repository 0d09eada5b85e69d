"""Assets are read once into typed records; what is not known is kept where it was kept before."""

from typing import Any

import pytest

from runyard.core.definitions.assets import ImageDefinition, ModelDefinition, asset_kind, given_texts, new_asset
from runyard.core.definitions.compute import ComputeDefinition
from runyard.core.definitions.dataset import DatasetDefinition, DatasetSource
from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import MergePatch
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.records.assets import AssetKind


def test_a_compute_target_has_typed_fields_and_keeps_the_others():
    made = ComputeDefinition.parse({"max_nodes": 4, "resources": {"cpu": 2, "gpu": None}, "ofALaterClient": [1]})
    assert (made.min_nodes, made.max_nodes, made.idle_seconds, made.vm_priority) == (0, 4, 1800, "dedicated")
    assert (made.engine, made.address, made.settings, made.resources) == (None, None, {}, {"cpu": 2})
    kept = made.stored({"engine": "ray"})
    assert (kept.raw["ofALaterClient"], kept.engine, kept.resources, kept.max_nodes) == ([1], "ray", {"cpu": 2}, 4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_nodes", None),
        ("max_nodes", 4.5),
        ("min_nodes", "1"),
        ("address", 7),
        ("settings", [1]),
        ("resources", {"gpu": 0.5}),
        ("vm_priority", ["spot"]),
        ("idle_seconds_before_scaledown", True),
    ],
)
def test_an_error_of_a_compute_target_names_the_field(field: str, value: Any):
    with pytest.raises(InvalidArgument, match=rf"^{field}\b"):
        ComputeDefinition.parse({"max_nodes": 4, field: value})


def test_a_dataset_has_typed_sources():
    path = {"datastore": "pictures", "path": "/cats/./small/"}
    made = DatasetDefinition.parse({"sources": [path], "description": "Cats", "steps": [["take", 1]]})
    assert made.sources == (DatasetSource(datastore="pictures", path="cats/small"),)
    assert (made.is_of_files, made.steps, made.pin) == (True, [["take", 1]], None)
    assert DatasetDefinition(made.raw).sources == made.sources
    web = DatasetDefinition.parse({"type": "tabular", "sources": [{"url": "https://a.example/x.csv"}]})
    assert (web.sources, web.is_of_files) == ((DatasetSource(url="https://a.example/x.csv"),), False)


def test_datasets_mean_the_same_whatever_is_said_of_them():
    made = DatasetDefinition.of_path("pictures", "cats")
    pinned = made.with_pin({"manifest": "abc"}).described_as("Cats")
    assert made.means_the_same(pinned)
    assert (made.manifest, pinned.manifest, pinned.with_pin(None).pin) == (None, "abc", None)
    assert not made.means_the_same(DatasetDefinition.of_path("pictures", "cats", table_format={"kind": "csv"}))


@pytest.mark.parametrize(
    "changed", [{"stranger": 1}, {"type": "video"}, {"sources": []}, {"steps": 1}, {"format": [1]}]
)
def test_a_dataset_of_anything_else_is_refused(changed: dict[str, Any]):
    with pytest.raises(InvalidArgument):
        DatasetDefinition.parse({"sources": [{"datastore": "pictures", "path": "cats"}], **changed})


def test_the_kind_says_which_record_a_new_asset_is():
    assert isinstance(new_asset(AssetKind.MODEL, {"files": []}), ModelDefinition)
    assert isinstance(new_asset(AssetKind.ENVIRONMENT, {"name": "e"}), EnvironmentDefinition)
    assert isinstance(new_asset(AssetKind.COMPUTE, {"max_nodes": 1}), ComputeDefinition)
    with pytest.raises(InvalidArgument, match="scoring script"):
        new_asset(AssetKind.IMAGE, {"models": ["m:1"]})
    with pytest.raises(NotFound, match="Known: computes, datasets, datastores, environments, images, models"):
        asset_kind("secrets")


def test_an_image_is_checked_as_a_deployment_is():
    inference = {"entry_script": "score.py", "files": [["score.py", "0" * 64, 1, 0o644]]}
    image = ImageDefinition.parse({"models": ["m:1"], "inference": inference, "ofALaterClient": 1})
    assert (image.deployment.models, image.raw["ofALaterClient"]) == (("m:1",), 1)
    with pytest.raises(InvalidArgument, match="not in the source_directory"):
        ImageDefinition.parse({"inference": {**inference, "entry_script": "other.py"}})


def test_a_patch_sets_fields_and_a_null_removes_them():
    assert MergePatch({"a": 2, "b": None}).over({"a": 1, "b": 1, "c": 1}) == {"a": 2, "c": 1}


def test_a_credential_that_is_no_text_is_refused_without_telling_it():
    assert given_texts({"account_key": "k", "sas_token": None}) == {"account_key": "k", "sas_token": ""}
    with pytest.raises(InvalidArgument, match=r"^account_key must be a string, got int\.$"):
        given_texts({"account_key": 1234})
