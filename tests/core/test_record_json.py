"""Records become JSON and come back, whatever version wrote them."""

import json
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.record_json import from_json, to_json
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import (
    CondaSpec,
    ContainerRequest,
    EnvironmentSpec,
    ImageSpec,
    LaunchPlan,
    NodePlan,
    PortRequest,
    ProcessSpec,
    VolumeRequest,
)
from runyard.core.records.runs import AttemptId, RunId

FILE = FileEntry("train.py", "ab" * 32, 12)
PLAN = LaunchPlan(
    AttemptId("r_1.1"),
    RunId("r_1"),
    "run",
    EnvironmentSpec(
        choices=(("torch+cpu",), ("torch",)),
        library_links=(("old", "new"),),
        conda=CondaSpec(("numpy",)),
        image=ImageSpec(dockerfile="FROM a", context=(FILE,)),
    ),
    (NodePlan("127.0.0.1", (ProcessSpec(0, ("a", "b"), {"A": "1"}, "log"),), ports=(PortRequest("master", 6105),)),),
    code=(FILE,),
    container=ContainerRequest(
        volumes=(VolumeRequest("/a", "/b", True),), ulimits=(("nofile", 1, 2),), cpus=2.0, variables=(("A", "1"),)
    ),
)


def read(body: Any) -> LaunchPlan:
    return from_json(LaunchPlan, json.loads(json.dumps(body)), "The plan")


@pytest.mark.parametrize("rows", [(), (FileEntry,)])
def test_files_are_read_as_objects_and_as_rows(rows: tuple[type, ...]):
    assert read(to_json(PLAN, rows)) == PLAN


def test_rows_are_as_long_as_a_node_of_the_version_before_takes_them():
    written = to_json(PLAN, (FileEntry,))
    assert written["code"] == [["train.py", "ab" * 32, 12, 0o644]]
    assert written["environment"]["image"]["context"] == written["code"]


def test_what_a_newer_version_added_is_left_out():
    body = {**to_json(PLAN, (FileEntry,)), "invented": 1}
    body["code"] = [[*body["code"][0], "invented"]]
    assert read(body) == PLAN


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"run_id": 5}, r"The plan\.run_id must be str"),
        ({"nodes": {}}, r"The plan\.nodes must be a list"),
        ({"nodes": [{"address": "a"}]}, r"The plan\.nodes lacks processes"),
        ({"env": ["A"]}, r"The plan\.env must be an object"),
        ({"environment": {"python": 3}}, r"The plan\.environment\.python must be str"),
        ({"environment": {"library_links": [["one"]]}}, r"library_links must be a list of 2"),
        ({"code": [["train.py"]]}, r"The plan\.code lacks sha256"),
        ({"code": [["train.py", "ab", "12", 420]]}, r"The plan\.code\.size must be int"),
        ({"max_seconds": "soon"}, r"The plan\.max_seconds must be int"),
    ],
)
def test_an_error_names_the_field(changes: dict[str, Any], named: str):
    with pytest.raises(InvalidArgument, match=named):
        read({**to_json(PLAN), **changes})
