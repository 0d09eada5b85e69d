"""The plans that run definitions become, compared with files that a person has read."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runyard.errors import InvalidArgument, NotYet
from runyard.model.assets import Workspace
from runyard.model.files import FileEntry
from runyard.model.plan import DataItem, EnvironmentSpec, LaunchPlan
from runyard.model.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.planning.gpus import Gpu, share_gpus
from runyard.planning.launch import Resources, plan_preparation, plan_run
from runyard.planning.plan_json import plan_from_json, plan_to_json
from runyard.planning.variables import Place

GOLDEN = Path(__file__).parent / "golden"
AT = datetime(2026, 1, 2, tzinfo=UTC)
WORKSPACE = Workspace("vision", "workspace-id", "sub", "group", "local", AT)
SUBMITTER = {"PATH": "/usr/bin", "HOME": "/home/ann", "LANG": "en_US.UTF-8", "SECRET": "x", "UV_CACHE_DIR": "/cache"}
ENVIRONMENT = EnvironmentSpec(python="3.11", requirements=("numpy",), choices=(("torch==2.1+cpu",), ("torch==2.1",)))


def a_run(**definition: Any) -> RunRecord:
    given = {
        "script": "train.py",
        "arguments": ["--rate", "0.1", "--data", "$AZUREML_DATAREFERENCE_mnist"],
        "framework": "Python",
        "communicator": "None",
        "environment": {"environmentVariables": {"MINE": "1"}},
        "runyard": {"submitter": {"python": "/usr/bin/python3", "variables": SUBMITTER}},
        **definition,
    }
    return RunRecord(RunId("r_1"), "vision", "digits", 1, RunStatus.STARTING, AT, attempt=1, definition=given)


def resources(run: RunRecord, gpus: tuple[Gpu, ...] = (), **more: Any) -> Resources:
    return Resources(
        attempt_id=AttemptId("r_1.1"),
        place=Place(WORKSPACE, "experiment-id", "http://127.0.0.1:9", "r_1.token"),
        node_token="node.r_1.1.token",
        environment=ENVIRONMENT,
        gpus=share_gpus(run.definition, gpus, slots=[0], most_slots=1),
        code=(FileEntry("train.py", "ab" * 32, 12),),
        **more,
    )


def assert_golden(name: str, plan: LaunchPlan) -> None:
    shown = json.dumps(plan_to_json(plan), indent=1, sort_keys=True) + "\n"
    assert shown == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_a_script_with_data_on_the_cpu():
    run = a_run(maxRunDurationSeconds=3600)
    mnist = DataItem(
        "mnist", "reference", "mount", "$AZUREML_DATAREFERENCE_mnist", datastore="blobs", variables=("mnist", "MNIST")
    )
    assert_golden("script", plan_run(run, resources(run, data=(mnist,))))


def test_an_estimator_that_asks_for_a_gpu_where_there_is_none():
    run = a_run(runyard={"estimator": {"framework": "TensorFlow", "version": "1.13", "use_gpu": True}})
    assert_golden("gpu_wanted", plan_run(run, resources(run)))


def test_an_estimator_on_a_gpu():
    run = a_run(runyard={"estimator": {"framework": "PyTorch", "version": "2.1", "use_gpu": True}})
    assert_golden("gpu", plan_run(run, resources(run, gpus=(Gpu("0", "H200", (9, 0)),))))


def test_a_command_is_a_shells_line():
    run = a_run(script=None, command=["python", "train.py", "&&", "echo", "done"])
    assert_golden("command", plan_run(run, resources(run)))


def test_a_preparation():
    run = a_run()
    assert_golden("preparation", plan_preparation(run, resources(run)))


@pytest.mark.parametrize("communicator", ["IntelMpi", "Mpi", "ParameterServer", "Nccl", "gloo"])
def test_distributed_training_is_said_to_be_missing(communicator):
    run = a_run(communicator=communicator)
    with pytest.raises(NotYet, match=communicator):
        plan_run(run, resources(run))


def test_an_unknown_communicator_is_named():
    run = a_run(communicator="telepathy")
    with pytest.raises(InvalidArgument, match="telepathy"):
        plan_run(run, resources(run))


def test_a_plan_survives_the_way_to_its_node():
    run = a_run()
    plan = plan_run(run, resources(run))
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


def test_a_plans_data_survives_the_way_to_its_node():
    run = a_run()
    item = DataItem("out", "output", "upload", "DatasetOutputConfig:out", path="a/b", globs=("*.csv",), overwrite=True)
    plan = plan_run(run, resources(run, data=(item,)))
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))).data == (item,)


def test_a_script_learns_which_data_it_has():
    dataset = {"dataLocation": {"dataset": {"id": "d1"}}}
    run = a_run(
        data={"direct": {**dataset, "mechanism": "Direct"}, "mounted": {**dataset, "mechanism": "Mount"}},
        outputData={"a": {"mechanism": "Mount"}, "b": {"mechanism": "Upload"}, "c": {"mechanism": "Link"}},
    )
    env = plan_run(run, resources(run)).env
    assert env["AZUREML_DATASET_ENVIRONMENT_VARS"] == "direct:direct,mounted:mount"
    assert (env["direct"], "mounted" in env) == ("d1", False)
    assert (env["AZUREML_DATASET_FILE_OUTPUTS"], env["AZUREML_LINK_DATASET_OUTPUTS"]) == ("a;b", "c")


def test_a_dataset_called_path_does_not_replace_the_path():
    dataset = {"dataLocation": {"dataset": {"id": "d1"}}, "mechanism": "Direct"}
    run = a_run(data={"PATH": dataset})
    assert plan_run(run, resources(run)).env["PATH"] == "/usr/bin"


def test_a_newer_services_fields_are_ignored():
    run = a_run()
    body = json.loads(json.dumps(plan_to_json(plan_run(run, resources(run)))))
    body["invented"] = 1
    body["environment"]["invented"] = 1
    assert plan_from_json(body).run_id == "r_1"


def test_the_services_own_variables_are_not_the_scripts():
    run = a_run()
    assert "SECRET" not in plan_run(run, resources(run)).env
