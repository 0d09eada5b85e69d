"""The plans that run definitions become, compared with files that a person has read."""

import json

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.plan_json import plan_from_json, plan_to_json
from runyard.core.records.launch_plan import DataItem
from runyard.core.submitter_variables import submitter_variables, without_machine_paths
from runyard.runs.launch.plan import plan_run
from tests.runs.golden_plans import GOLDEN, PLANS, a_run, golden_file, resources, shown


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_the_one_that_was_read(name):
    assert shown(PLANS[name]()) == golden_file(name).read_text(encoding="utf-8")


def test_every_golden_file_has_its_plan():
    assert sorted(file.stem for file in GOLDEN.glob("*.json")) == sorted(PLANS)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_survives_the_way_to_its_node(name):
    plan = PLANS[name]()
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


def test_an_unknown_communicator_is_named():
    run = a_run(communicator="telepathy")
    with pytest.raises(InvalidArgument, match="telepathy"):
        plan_run(run, resources(run))


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
    body["nodes"][0]["invented"] = 1
    body["nodes"][0]["processes"][0]["invented"] = 1
    assert plan_from_json(body).run_id == "r_1"


def test_the_services_own_variables_are_not_the_scripts():
    run = a_run()
    assert "SECRET" not in plan_run(run, resources(run)).env


@pytest.mark.parametrize("address", ["unix:///run/user/7/docker.sock", "tcp://127.0.0.1:2375", "tcp://[::1]:2375"])
def test_the_submitters_engine_is_asked_where_it_is_of_the_machine(address):
    definition = {"runyard": {"submitter": {"variables": {"DOCKER_HOST": address}}}}
    assert submitter_variables(RunDefinition.parse(definition))["DOCKER_HOST"] == address


@pytest.mark.parametrize(
    "address", ["tcp://elsewhere:2375", "ssh://me@elsewhere", "tcp://127.0.0.1.evil.example:1", "x"]
)
def test_an_engine_elsewhere_is_not_given_the_logins_of_registries(address):
    definition = {"runyard": {"submitter": {"variables": {"DOCKER_HOST": address, "CONTAINER_HOST": address}}}}
    assert submitter_variables(RunDefinition.parse(definition)).keys() == {"LANG"}


def test_nothing_that_names_places_of_the_machine_goes_into_an_image():
    kept = {"LANG": "C", "PIP_INDEX_URL": "https://packages.example/simple", "HTTPS_PROXY": "http://proxy:1"}
    places = {"PATH": "/bin", "CONDA_EXE": "/x", "PIP_CERT": "/ca.pem", "UV_FIND_LINKS": "https://a/b,/wheels"}
    assert without_machine_paths({**kept, **places, "PIP_FIND_LINKS": "file:///wheels", "UV_CACHE_DIR": "~/c"}) == kept
