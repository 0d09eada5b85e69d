import pytest

from runyard.core.definitions.deployment import DeploymentSpec, InferenceConfig
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import ListenDefaults, Scorer, ServedModel, ServiceType
from runyard.environments.recorded_packages import RecordedPackages
from runyard.serving.deployments.config import Machine, checked_config
from runyard.serving.deployments.service_spec import (
    Credentials,
    DeployedModel,
    ResolvedDeployment,
    WorkerRuntime,
    needs_new_workers,
    service_spec,
    worker_runtime,
)

MACHINE = Machine(cores=2, gpus=("0",))
MODEL = DeployedModel(ServedModel("iris", 1, ()), "ScikitLearn", "")
FILES = [["score.py", "0" * 64, 3, 0o644]]
INFERENCE = {"entry_script": "score.py", "files": FILES, "environment": {"environmentVariables": {"A": "1"}}}


def spec(deployment, listening=None, **identity):
    who = {"id": "i", "workspace": "w", "name": "iris-service", "revision": 1, "generation": 1, **identity}
    return service_spec(
        deployment,
        WorkerRuntime(Scorer.SCRIPT, EnvironmentSpec()),
        identity=who,
        credentials=Credentials("first", "second", "secret"),
        listening=listening or ListenDefaults(),
        machine=MACHINE,
    )


def deployment(type=ServiceType.ACI, config=None, inference=INFERENCE, models=(MODEL,), submitter=None):
    given = DeploymentSpec.parse({"inference": inference, "submitter": submitter or {}})
    return ResolvedDeployment(type, models, checked_config(type, config or {}), given.inference, given.submitter)


def test_the_users_own_variables_count_more_than_ours():
    own = {"environment": {"environmentVariables": {"OMP_NUM_THREADS": "7", "CUDA_VISIBLE_DEVICES": "0"}}}
    found = spec(deployment(config={"cpu_cores": 2}, inference={**INFERENCE, **own})).variables
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"], found["CUDA_VISIBLE_DEVICES"]) == ("7", "2", "0")


def test_a_model_without_code_speaks_for_its_resources_where_the_configuration_does_not():
    model = DeployedModel(MODEL.served, "ScikitLearn", resources={"cpu": 2, "gpu": 1, "memory_in_gb": 0.5})
    found = spec(deployment(inference=None, models=(model,)))
    assert (found.variables["OMP_NUM_THREADS"], found.variables["CUDA_VISIBLE_DEVICES"]) == ("2", "0")
    assert found.limits.memory_bytes == 0
    assert (
        spec(deployment(inference=None, models=(model,), config={"cpu_cores": 1})).variables["OMP_NUM_THREADS"] == "1"
    )


def test_the_operators_certificate_is_for_those_without_one():
    listening = ListenDefaults(certificate="theirs", private_key="their key", names=("a.example",))
    assert (spec(deployment(), listening).certificate, spec(deployment(), listening).private_key) == (
        "theirs",
        "their key",
    )
    pem = "-----BEGIN X-----"
    own = deployment(config={"ssl_enabled": True, "ssl_cert_pem": pem, "ssl_key_pem": pem, "ssl_cname": "b.example"})
    assert spec(own, listening).certificate == pem
    assert spec(own, listening).host_names == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("change", "is_needed"),
    [
        ({"config": {"auth_enabled": True}}, False),
        ({"config": {"memory_gb": 3}}, False),
        ({"config": {"num_replicas": 3}}, False),
        ({"config": {"cpu_cores": 1}}, True),
        ({"inference": {**INFERENCE, "entry_script": "b.py", "files": [*FILES, ["b.py", "0" * 64, 3, 0o644]]}}, True),
        ({"inference": {**INFERENCE, "files": [["score.py", "1" * 64, 3, 0o644]]}}, True),
        ({"inference": {**INFERENCE, "description": "other"}}, False),
        ({"models": (DeployedModel(ServedModel("iris", 2, ())),)}, True),
    ],
)
def test_only_what_is_inside_of_workers_needs_new_ones(change, is_needed):
    assert needs_new_workers(spec(deployment()), spec(deployment(**change), generation=2)) is is_needed


def test_threads_are_inside_of_workers():
    one, four = (deployment(ServiceType.AKS, {"replica_max_concurrent_requests": n}) for n in (1, 4))
    assert needs_new_workers(spec(one), spec(four))


def test_the_run_that_made_a_model_says_what_serves_it():
    origin = RecordedPackages.of_lock("3.11", "scikit-learn==1.4.2\nnumpy==1.26.4\n", "run_1")
    model = DeployedModel(MODEL.served, "ScikitLearn", origin=origin)
    found = worker_runtime(deployment(inference=None, models=(model,)), MACHINE)
    assert found.scorer is Scorer.SCIKIT_LEARN
    assert "run_1" in " ".join(found.environment.notes)
    assert any("1.4" in line for line in (*found.environment.requirements, *found.environment.preferences))


def test_a_script_takes_the_interpreter_of_whoever_deploys_it():
    managed = {"environment": {"python": {"userManagedDependencies": True, "interpreterPath": "python"}}}
    asked = deployment(inference={**INFERENCE, **managed}, submitter={"python": "/opt/mine/bin/python"})
    assert worker_runtime(asked, MACHINE) == WorkerRuntime(
        Scorer.SCRIPT, EnvironmentSpec(python="/opt/mine/bin/python", user_managed=True)
    )


def test_what_an_inference_config_says_is_kept_and_nothing_else():
    kept = InferenceConfig.parse({**INFERENCE, "source_directory": "/there", "unknown": 1})
    assert kept.to_json() == {**INFERENCE, "source_directory": "/there", "description": ""}
    with pytest.raises(InvalidArgument, match=r"\.py"):
        InferenceConfig.parse({"entry_script": "notes.txt", "files": [["notes.txt", "0" * 64, 1, 420]]})
