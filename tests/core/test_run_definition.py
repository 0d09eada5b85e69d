"""A run definition is read once, with every field of its type; what is not known is kept."""

from typing import Any

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument

DEFINITION = {
    "script": "train.py",
    "arguments": ["--rate", 0.1],
    "target": "cpu-cluster",
    "nodeCount": 2,
    "communicator": "IntelMpi",
    "mpi": {"processCountPerNode": 4, "ofALaterSdk": 1},
    "maxRunDurationSeconds": 3600,
    "environment": {
        "name": "mine",
        "version": 3,
        "environmentVariables": {"A": 1},
        "python": {
            "condaDependencies": {"channels": ["conda-forge"], "dependencies": ["python=3.8", {"pip": ["numpy"]}]}
        },
        "docker": {"enabled": True, "baseImage": " ubuntu:22.04 ", "arguments": "--rm"},
    },
    "runyard": {"submitter": {"python": "/usr/bin/python3"}, "estimator": {"framework": "PyTorch", "use_gpu": None}},
    "ofALaterSdk": {"deep": [1, {"a": None}]},
}


def test_every_field_has_its_type():
    found = RunDefinition.parse(DEFINITION)
    assert (found.script, found.arguments, found.target) == ("train.py", ("--rate", "0.1"), "cpu-cluster")
    assert (found.node_count, found.process_counts.per_node, found.max_run_seconds) == (2, 4, 3600)
    environment = found.environment
    assert (environment.name, environment.version, environment.variables) == ("mine", "3", {"A": "1"})
    assert (environment.python.conda_packages, environment.python.pip_packages) == (("python=3.8",), ("numpy",))
    assert (environment.docker.base_image, environment.docker.arguments) == ("ubuntu:22.04", ("--rm",))
    assert (found.runyard.submitter.python, found.runyard.estimator.use_gpu) == ("/usr/bin/python3", None)


def test_what_is_not_known_is_kept_as_it_came():
    found = RunDefinition.parse(DEFINITION)
    changed = found.with_runyard(locked={"lock": "numpy==1.0"}).with_environment(found.environment.called("a", "1"))
    assert changed.raw["ofALaterSdk"] == DEFINITION["ofALaterSdk"]
    assert changed.raw["mpi"] == DEFINITION["mpi"]
    assert (changed.runyard.lock, changed.environment.name) == ("numpy==1.0", "a")
    assert found.raw == DEFINITION


def test_what_was_read_is_not_read_again_after_a_change_of_another_field():
    found = RunDefinition.parse(DEFINITION)
    changed = found.with_fields(arguments=["--rate", "0.2"])
    assert changed.runyard is found.runyard
    assert changed.environment is found.environment
    assert changed.arguments == ("--rate", "0.2")


def test_a_stored_definition_that_was_never_checked_is_read_as_far_as_it_is_asked_for():
    stored = RunDefinition({"script": "a.py", "nodeCount": "two", "environment": "none"})
    assert stored.script == "a.py"
    with pytest.raises(InvalidArgument, match="node_count"):
        _ = stored.node_count


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ({"target": 5}, "compute_target"),
        ({"script": ["a.py"]}, "script"),
        ({"command": 5}, "command"),
        ({"command": {"a": 1}}, "command"),
        ({"arguments": "--a"}, "arguments"),
        ({"arguments": ["a\0b"]}, "arguments"),
        ({"nodeCount": None}, "node_count"),
        ({"nodeCount": True}, "node_count"),
        ({"nodeCount": 10**400}, "node_count"),
        ({"mpi": {"processCountPerNode": "4"}}, "process_count_per_node"),
        ({"tensorflow": []} | {"tensorflow": ["x"]}, "tensorflow"),
        ({"maxRunDurationSeconds": "an hour"}, "max_run_duration_seconds"),
        ({"maxRunDurationSeconds": -1}, "max_run_duration_seconds"),
        ({"maxRunDurationSeconds": 10**400}, "max_run_duration_seconds"),
        ({"environment": {"name": {"a": 1}}}, r"environment\.name"),
        ({"environment": {"python": "3.8"}}, r"environment\.python"),
        ({"environment": {"python": {"condaDependencies": ["numpy"]}}}, r"environment\.python\.condaDependencies"),
        (
            {"environment": {"python": {"condaDependencies": {"dependencies": "numpy"}}}},
            r"environment\.python\.condaDependencies\.dependencies",
        ),
        (
            {"environment": {"python": {"condaDependencies": {"dependencies": [{"pip": "numpy"}]}}}},
            r"environment\.python\.condaDependencies\.dependencies\.pip",
        ),
        ({"environment": {"docker": {"enabled": "yes"}}}, r"environment\.docker\.enabled"),
        ({"environment": {"docker": {"baseImage": ["a"]}}}, r"environment\.docker\.baseImage"),
        ({"docker": {"arguments": [1]}}, r"docker\.arguments"),
        ({"runyard": "no"}, "runyard"),
        ({"runyard": {"submitter": {"variables": ["A"]}}}, r"runyard\.submitter\.variables"),
        ({"runyard": {"cancel_grace_seconds": "soon"}}, r"runyard\.cancel_grace_seconds"),
        ({"data": {"a": {"dataLocation": 1}}}, r"data\.a\.dataLocation"),
        ({"outputData": {"a": {"outputLocation": {"dataPath": "x"}}}}, r"outputData\.a\.outputLocation\.dataPath"),
    ],
)
def test_an_error_names_the_field(definition: dict[str, Any], path: str):
    with pytest.raises(InvalidArgument, match=rf"^{path}\b"):
        RunDefinition.parse(definition)
