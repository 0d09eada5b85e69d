"""A deployment is read once, with every field of its type."""

from typing import Any

import pytest

from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.errors import InvalidArgument
from runyard.core.records.web_services import ServiceType

INFERENCE = {"entry_script": "score.py", "files": [["score.py", "0" * 64, 3, 0o644]], "ofALaterSdk": 1}
DEPLOYED = {"type": "aks", "models": ["iris:1"], "inference": INFERENCE, "image_id": "box:1"}


def test_every_field_has_its_type():
    spec = DeploymentSpec.parse({**DEPLOYED, "submitter": {"python": "/usr/bin/python3"}, "ofALaterSdk": 1})
    assert (spec.type, spec.models, spec.image_id) == (ServiceType.AKS, ("iris:1",), "box:1")
    assert spec.inference is not None
    assert (spec.inference.entry_script, spec.inference.files[0].path) == ("score.py", "score.py")
    assert spec.submitter is not None
    assert spec.submitter.python == "/usr/bin/python3"


def test_a_change_keeps_what_it_does_not_speak_of():
    stored = DeploymentSpec.parse(DEPLOYED)
    assert DeploymentSpec().over(stored, {"cpu_cores": 1.0}).image_id == "box:1"
    other = DeploymentSpec(models=("iris:2",)).over(stored, {})
    assert (other.models, other.inference, other.image_id) == (("iris:2",), stored.inference, None)
    image = DeploymentSpec(image_id="box:2").over(stored, {})
    assert (image.models, image.inference, image.image_id) == (None, None, "box:2")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"type": "moon"}, "type"),
        ({"type": 5}, "type"),
        ({"models": "iris"}, "models"),
        ({"models": [1]}, "models"),
        ({"config": []} | {"config": ["a"]}, "config"),
        ({"inference": "score.py"}, "inference"),
        ({"inference": {**INFERENCE, "files": "none"}}, "files"),
        ({"inference": {**INFERENCE, "files": [["../a", "0" * 64, 1, 420]]}}, "path"),
        ({"inference": {**INFERENCE, "files": [["a", "0" * 64, 10**400, "x"]]}}, "files"),
        ({"inference": {**INFERENCE, "entry_script": None}}, "inference_config has no entry_script"),
        ({"inference": {**INFERENCE, "environment": 5}}, "environment"),
        ({"inference": {**INFERENCE, "environment": {"python": "3.8"}}}, r"environment\.python"),
        ({"inference": {**INFERENCE, "description": ["a"]}}, r"inference\.description"),
        ({"image_id": ["box"]}, "image_id"),
        ({"submitter": "me"}, "submitter"),
        ({"submitter": {"variables": 5}}, r"submitter\.variables"),
    ],
)
def test_an_error_names_the_field(given: dict[str, Any], named: str):
    with pytest.raises(InvalidArgument, match=rf"(^|\b){named}\b"):
        DeploymentSpec.parse(given)
