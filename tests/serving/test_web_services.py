import threading

import pytest

from runyard.core.definitions.assets import ImageDefinition
from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.errors import AlreadyExists, BlobsMissing, Conflict, InvalidArgument, NotFound
from runyard.core.principal import OWNER, Principal, Role
from runyard.core.records.assets import AssetKind
from runyard.core.records.runs import RunId
from runyard.core.records.web_services import ListenDefaults, Scorer, ServiceState
from runyard.serving.deployments.web_services import NewService
from tests.serving.web_service_parts import SCRIPT, SPACE, opened_parts


@pytest.fixture
def parts(home):
    with opened_parts(home) as opened:
        opened.model()
        yield opened


def test_a_deployment_reaches_the_host_with_its_model_and_its_script(parts):
    made = parts.deploy()
    (spec,) = parts.host.applied
    assert (spec.id, spec.name, spec.workspace) == (made.id, "iris-service", SPACE)
    assert (spec.revision, spec.generation) == (1, 1)
    assert (spec.scorer, spec.entry_script) == (Scorer.SCRIPT, "score.py")
    assert [(model.name, model.version) for model in spec.models] == [("iris", 1)]
    assert spec.environment.python == "/bin/python"


def test_a_model_without_code_gets_a_scorer_and_an_environment_by_its_framework(parts):
    parts.deploy(inference=None)
    (spec,) = parts.host.applied
    assert spec.scorer is Scorer.SCIKIT_LEARN
    assert any(line.startswith("scikit-learn") for line in spec.environment.requirements)
    assert any("scikit-learn" in note for note in parts.record().notes)


def test_a_model_of_no_known_framework_is_refused_without_code(parts):
    parts.model("odd", framework="Custom")
    with pytest.raises(InvalidArgument, match=r"inference_config|framework"):
        parts.deploy(models=["odd:1"], inference=None)
    assert parts.host.applied == []


def test_two_models_need_a_script(parts):
    parts.model("second")
    with pytest.raises(InvalidArgument, match="exactly one model"):
        parts.deploy(models=["iris:1", "second:1"], inference=None)


def test_what_is_not_there_is_named(parts):
    with pytest.raises(NotFound, match=r"nowhere:1.*ModelNotFound"):
        parts.deploy(models=["nowhere:1"])
    with pytest.raises(NotFound, match="iris:9"):
        parts.deploy(models=["iris:9"])
    with pytest.raises(NotFound, match="WebserviceNotFound"):
        parts.serving.services.get(OWNER, SPACE, "nothing")


@pytest.mark.parametrize("name", ["ab", "a" * 33, "1abc", "-abc", "a_b_c", "a b c", "../../x", "abc\0", "", "déploy"])
def test_a_name_that_is_none_is_refused_with_the_rule(parts, name):
    with pytest.raises(InvalidArgument, match="3 to 32"):
        parts.deploy(name)


def test_a_name_with_capitals_is_refused_with_the_right_one(parts):
    with pytest.raises(InvalidArgument, match=r"capital letters.*'my-service'"):
        parts.deploy("My-Service")


@pytest.mark.parametrize(
    ("inference", "said"),
    [
        ({"entry_script": ""}, "entry_script"),
        ({"entry_script": "other.py"}, "not in the source_directory"),
        ({"entry_script": "../score.py"}, "leads out"),
        ({"entry_script": "/score.py"}, "absolute"),
        ({"files": [["score.py", "x"]]}, "files"),
        ({"files": [["../score.py", "0" * 64, 1, 420]]}, "leads out"),
        ({"environment": "none"}, "environment"),
        ({"environment": {"python": 3}}, "python must be an object"),
        ({"environment": {"environmentVariables": ["A"]}}, "environment_variables"),
        ({"environment": {"environmentVariables": {"A": "\0"}}}, "environment_variables"),
    ],
)
def test_an_inference_config_that_cannot_be_is_refused_in_words(parts, inference, said):
    with pytest.raises(InvalidArgument, match=said):
        parts.deploy(inference={**parts.inference(), **inference})


def test_of_the_deployers_variables_those_that_builds_take_are_kept(parts):
    variables = {"PATH": "/bin", "LD_PRELOAD": "x.so", "UV_INDEX_URL": "https://index.example", "A\0": "b"}
    parts.deploy(submitter={"python": "/bin/python", "variables": variables})
    assert parts.host.applied[-1].build_variables.keys() == {"PATH", "UV_INDEX_URL", "LANG"}
    with pytest.raises(InvalidArgument, match=r"submitter\.variables"):
        parts.deploy("other-one", submitter={"variables": ["PATH"]})


def test_the_deployers_python_stands_in_for_a_default_that_nobody_chose(parts):
    python = {"condaDependencies": {"dependencies": ["python=3.10.18", {"pip": ["scikit-learn"]}]}}
    parts.deploy(
        inference=parts.inference(python=python), submitter={"python": "/bin/python", "python_version": "3.11"}
    )
    assert parts.host.applied[-1].environment.python_instead == "3.11"


def test_one_that_anybody_can_ask_over_the_network_says_so(parts):
    parts.restarted(web_services=ListenDefaults("192.0.2.1")).deploy("open-one")
    parts.restarted(web_services=ListenDefaults("192.0.2.1")).deploy("closed-one", type="AKS")
    assert any("Whoever reaches this machine" in note for note in parts.record("open-one").notes)
    assert parts.record("closed-one").notes == []


def test_files_that_were_not_sent_are_asked_for(parts):
    files = [["score.py", "0" * 64, 1, 0o644]]
    with pytest.raises(BlobsMissing) as raised:
        parts.deploy(inference={**parts.inference(), "files": files})
    assert raised.value.facts["sha256"] == ["0" * 64]


def test_a_name_that_is_taken_is_refused_unless_it_is_to_be_overwritten(parts):
    first = parts.deploy()
    with pytest.raises(AlreadyExists, match="overwrite=True"):
        parts.deploy()
    second = parts.deploy(overwrite=True)
    assert second.id == first.id
    assert [spec.revision for spec in parts.host.applied] == [1, 2]


def test_of_two_deployments_with_one_name_at_once_one_wins(parts):
    inference, outcomes, gate = parts.inference(), [], threading.Barrier(8)

    def deploy():
        gate.wait()
        try:
            outcomes.append(parts.deploy(inference=inference).id)
        except AlreadyExists:
            outcomes.append(None)

    threads = [threading.Thread(target=deploy) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in outcomes if one]) == 1
    assert len(parts.host.applied) == 1


def test_other_models_or_code_need_new_workers_and_other_limits_do_not(parts):
    parts.model()
    parts.deploy(type="AKS")
    parts.change(models=["iris:2"])
    parts.change(inference=parts.inference(SCRIPT + b"# new\n"))
    parts.change(config={"scoring_timeout_ms": 1000, "num_replicas": 3})
    parts.change(config={"cpu_cores": 2})
    counts = [(spec.revision, spec.generation) for spec in parts.host.applied]
    assert counts == [(1, 1), (2, 2), (3, 3), (3, 4), (4, 5)]
    last = parts.host.applied[-1]
    assert (last.limits.scoring_seconds, last.scale.least, last.scale.most) == (1.0, 3, 3)
    assert last.variables["OMP_NUM_THREADS"] == "2"


def test_tags_and_descriptions_change_without_the_host(parts):
    parts.deploy(tags={"a": "1", "b": "2"})
    parts.change(tags={"a": None, "c": "3"}, description="new")
    record = parts.record()
    assert (record.tags, record.description) == ({"b": "2", "c": "3"}, "new")
    assert len(parts.host.applied) == 1


def test_the_same_said_again_needs_no_new_workers_unless_they_failed(parts):
    made = parts.deploy()
    parts.change(models=["iris:1"])
    assert parts.host.applied[-1].revision == 1
    parts.host.change(made.id, failed_revision=1, revision=0, state=ServiceState.FAILED)
    parts.change(models=["iris:1"])
    assert parts.host.applied[-1].revision == 2


def test_a_reload_makes_new_workers_from_the_same_files(parts):
    parts.deploy()
    parts.serving.services.reload(OWNER, SPACE, "iris-service")
    first, second = parts.host.applied
    assert (second.revision, second.code) == (2, first.code)


def test_properties_are_added_and_never_changed(parts):
    parts.deploy()
    parts.change(properties={"team": "red"})
    parts.change(properties={"team": "red", "stage": "test"})
    with pytest.raises(Conflict, match=r"'team'.*cannot be changed"):
        parts.change(properties={"team": "blue"})
    assert parts.record().properties == {"team": "red", "stage": "test"}


def test_a_deleted_one_is_gone_from_the_host_and_its_keys_from_the_vault(parts):
    parts.deploy(config={"auth_enabled": True})
    parts.serving.services.delete(OWNER, SPACE, "iris-service")
    assert (parts.names(), parts.host.specs) == ([], {})
    assert parts.base.stores.assets.list(SPACE, AssetKind.SECRET) == []
    parts.serving.services.delete(OWNER, SPACE, "iris-service")


def test_a_port_that_another_web_service_asked_for_is_refused_by_name(parts):
    parts.deploy("first-one", type="Local", config={"port": 6789})
    with pytest.raises(Conflict, match=r"6789.*first-one"):
        parts.deploy("second-one", type="Local", config={"port": 6789})
    parts.deploy("first-one", type="Local", config={"port": 6789}, overwrite=True)


def test_a_script_is_not_told_which_web_service_of_another_workspace_has_the_port(parts):
    parts.deploy(type="Local", config={"port": 50123})
    script = Principal(Role.RUN, RunId("r"), workspace="elsewhere")
    with pytest.raises(Conflict) as refused:
        parts.serving.services.check_port(script, 50123, None)
    assert refused.value.problem == "Port 50123 is that of a web service in another workspace."


def test_images_bring_their_models_and_their_script(parts):
    image = ImageDefinition.parse({"models": ["iris:1"], "inference": parts.inference()})
    kept = parts.serving.planner.checked_image(OWNER, SPACE, image)
    parts.base.stores.assets.add(SPACE, AssetKind.IMAGE, "box", kept.raw, {})
    definition = {"type": "ACI", "image_id": "box:1"}
    parts.serving.services.deploy(OWNER, SPACE, NewService("boxed", DeploymentSpec.parse(definition)))
    (spec,) = parts.host.applied
    assert (spec.entry_script, spec.models[0].name) == ("score.py", "iris")
    assert parts.names(image="box") == parts.names(image="box:1") == ["boxed"]
    with pytest.raises(NotFound, match="image 'none:1'"):
        parts.serving.services.deploy(
            OWNER, SPACE, NewService("unboxed", DeploymentSpec.parse({**definition, "image_id": "none:1"}))
        )
    parts.change("boxed", models=["iris:1"])
    assert parts.record("boxed").image_id is None


def test_a_deployment_is_planned_without_being_made(parts):
    spec = parts.serving.planner.plan(
        OWNER, SPACE, "package", DeploymentSpec.parse({"models": ["iris:1"], "inference": parts.inference()})
    )
    assert (spec.scorer, spec.models[0].name) == (Scorer.SCRIPT, "iris")
    assert (parts.names(), parts.host.applied) == ([], [])
