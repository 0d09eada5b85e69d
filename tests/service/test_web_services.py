import threading

import pytest

from runyard.errors import AlreadyExists, BlobsMissing, Conflict, EngineError, InvalidArgument, NotFound, StorageFull
from runyard.model.assets import AssetKind
from runyard.model.web_services import Listening, Scorer, ServiceState, ServiceTrouble
from runyard.services.web_services.web_services import NewService, Wanted
from tests.service.web_service_parts import SCRIPT, SPACE, opened_parts


@pytest.fixture
def parts(home):
    with opened_parts(home) as opened:
        opened.model()
        yield opened


def names(parts, **wanted):
    return [service.name for service in parts.serving.services.list(SPACE, Wanted(**wanted))]


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
    assert any("scikit-learn" in note for note in parts.record()["notes"])


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
        parts.serving.services.get(SPACE, "nothing")


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
        ({"environment": {"python": 3}}, "put together"),
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
    with pytest.raises(InvalidArgument, match="variables of the submitter"):
        parts.deploy("other-one", submitter={"variables": ["PATH"]})


def test_the_deployers_python_stands_in_for_a_default_that_nobody_chose(parts):
    python = {"condaDependencies": {"dependencies": ["python=3.10.18", {"pip": ["scikit-learn"]}]}}
    parts.deploy(
        inference=parts.inference(python=python), submitter={"python": "/bin/python", "python_version": "3.11"}
    )
    assert parts.host.applied[-1].environment.python_instead == "3.11"


def test_one_that_anybody_can_ask_over_the_network_says_so(parts):
    parts.restarted(web_services=Listening("192.0.2.1")).deploy("open-one")
    parts.restarted(web_services=Listening("192.0.2.1")).deploy("closed-one", type="AKS")
    assert any("Whoever reaches this machine" in note for note in parts.record("open-one")["notes"])
    assert parts.record("closed-one")["notes"] == []


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


def test_a_deployment_that_the_host_refuses_leaves_nothing(parts):
    parts.host.refusal = StorageFull("The disk is full.")
    with pytest.raises(StorageFull):
        parts.deploy()
    assert names(parts) == []
    assert parts.base.stores.assets.list(SPACE, AssetKind.SECRET) == []
    parts.host.refusal = None
    parts.deploy()


def test_a_change_that_the_host_refuses_is_unmade(parts):
    parts.deploy()
    parts.host.refusal = StorageFull("The disk is full.")
    with pytest.raises(StorageFull):
        parts.serving.services.reload(SPACE, "iris-service")
    assert parts.record()["wanted_revision"] == 1
    parts.host.refusal = None
    parts.serving.services.reload(SPACE, "iris-service")
    assert parts.host.applied[-1].revision == 2


def test_the_numbers_of_a_change_that_the_host_may_have_are_not_given_again(parts):
    """A gateway that hung finds the spec of a change that was called off, and must see what comes after as news."""
    made = parts.deploy(type="AKS")
    parts.host.silence = EngineError("The gateway did not answer.")
    with pytest.raises(EngineError):
        parts.change(inference=parts.inference(SCRIPT + b"# called off\n"))
    with pytest.raises(EngineError):
        parts.serving.keys.renew(SPACE, made.name, "Primary")
    parts.host.silence = None
    wanted = parts.inference(SCRIPT + b"# wanted\n")
    parts.change(inference=wanted)
    spec = parts.host.specs[made.id]
    assert spec.code[0].sha256 == wanted["files"][0][1]
    assert spec.revision == parts.record()["wanted_revision"]
    assert spec.admission.keys[0] == parts.serving.keys.get(SPACE, made.name)["primary"]


def test_a_change_that_was_called_off_while_the_host_was_silent_is_undone_there_later(parts):
    made = parts.deploy()
    script = parts.host.specs[made.id].code
    parts.host.silence = EngineError("The gateway did not answer.")
    with pytest.raises(EngineError):
        parts.change(inference=parts.inference(SCRIPT + b"# called off\n"))
    with pytest.raises(EngineError):
        parts.serving.keeper.tell_again()
    parts.host.silence = None
    parts.serving.keeper.tell_again()
    spec = parts.host.specs[made.id]
    assert (spec.code, spec.revision) == (script, 3)
    told = len(parts.host.applied)
    parts.serving.keeper.tell_again()
    assert len(parts.host.applied) == told


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
    assert (record["tags"], record["description"]) == ({"b": "2", "c": "3"}, "new")
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
    parts.serving.services.reload(SPACE, "iris-service")
    first, second = parts.host.applied
    assert (second.revision, second.code) == (2, first.code)


def test_properties_are_added_and_never_changed(parts):
    parts.deploy()
    parts.change(properties={"team": "red"})
    parts.change(properties={"team": "red", "stage": "test"})
    with pytest.raises(Conflict, match=r"'team'.*cannot be changed"):
        parts.change(properties={"team": "blue"})
    assert parts.record()["properties"] == {"team": "red", "stage": "test"}


def test_listing_filters_by_type_model_image_tag_and_property(parts):
    parts.model("other")
    parts.deploy("first-one", tags={"k": "v"})
    parts.deploy("second-one", type="AKS", models=["other:1"])
    parts.change("second-one", properties={"p": "q"})
    assert names(parts) == ["first-one", "second-one"]
    assert names(parts, type="aks") == ["second-one"]
    assert names(parts, model="iris") == names(parts, model="iris:1") == ["first-one"]
    assert names(parts, model="iris:2") == names(parts, image="none") == []
    assert names(parts, tags={"k": None}) == names(parts, tags={"k": "v"}) == ["first-one"]
    assert names(parts, tags={"k": "w"}) == []
    assert names(parts, properties={"p": "q"}) == ["second-one"]
    with pytest.raises(InvalidArgument, match="type"):
        names(parts, type="VM")


def test_a_deleted_one_is_gone_from_the_host_and_its_keys_from_the_vault(parts):
    parts.deploy(config={"auth_enabled": True})
    parts.serving.services.delete(SPACE, "iris-service")
    assert (names(parts), parts.host.specs) == ([], {})
    assert parts.base.stores.assets.list(SPACE, AssetKind.SECRET) == []
    parts.serving.services.delete(SPACE, "iris-service")


def test_a_port_that_another_web_service_asked_for_is_refused_by_name(parts):
    parts.deploy("first-one", type="Local", config={"port": 6789})
    with pytest.raises(Conflict, match=r"6789.*first-one"):
        parts.deploy("second-one", type="Local", config={"port": 6789})
    parts.deploy("first-one", type="Local", config={"port": 6789}, overwrite=True)


def test_a_record_says_where_it_is_asked(parts):
    parts.deploy("plain-one")
    parts.deploy("kube-one", type="AKS")
    parts.model("net", framework="TensorFlow", framework_version="2.15")
    parts.deploy("no-code", models=["net:1"], inference=None)
    assert parts.record("plain-one")["scoring_uri"] == "http://localhost:4711/score"
    assert parts.record("plain-one")["swagger_uri"] == "http://localhost:4711/swagger.json"
    assert parts.record("kube-one")["scoring_uri"] == "http://localhost:4711/api/v1/service/kube-one/score"
    assert parts.record("kube-one")["swagger_uri"] == "http://localhost:4711/api/v1/service/kube-one/swagger.json"
    assert parts.record("no-code")["scoring_uri"] == "http://localhost:4711/v1/models/net:predict"


def test_a_record_is_transitioning_until_its_newest_revision_answers_or_failed(parts):
    made = parts.deploy()
    parts.host.change(made.id, revision=0, state=ServiceState.TRANSITIONING, step="environment", port=0)
    record = parts.record()
    assert (record["state"], record["step"], record["scoring_uri"]) == ("Transitioning", "environment", None)
    trouble = ServiceTrouble("init() failed: no such file", "Look at the log.", "init", "Traceback ...", "last line")
    parts.host.change(made.id, failed_revision=1, state=ServiceState.FAILED, trouble=trouble)
    record = parts.record()
    assert record["state"] == "Failed"
    assert record["error"] == dict(vars(trouble))


def test_an_older_revision_that_answers_while_a_new_one_is_made_is_shown_as_transitioning(parts):
    made = parts.deploy()
    parts.serving.services.reload(SPACE, "iris-service")
    parts.host.change(made.id, revision=1)
    assert (parts.record()["state"], parts.record()["revision"]) == ("Transitioning", 1)
    parts.host.change(made.id, failed_revision=2)
    assert parts.record()["state"] == "Healthy"


def test_the_last_lines_of_a_long_log_are_found(parts):
    made = parts.deploy()
    parts.host.logs[made.id] = b"".join(b"line %d\n" % number for number in range(100_000))
    data, behind = parts.serving.records.last_lines(made, 20_000)
    assert data.splitlines()[0] == b"line 80000"
    assert behind == len(parts.host.logs[made.id])
    assert parts.serving.records.last_lines(made, 0)[0] == b""
    assert parts.serving.records.log(made, 5, 6) == (b"0\nline", 11)


def test_a_deletion_that_takes_long_keeps_nobody_else_waiting(parts, monkeypatch):
    parts.deploy()
    remove, removing, go_on = parts.host.remove, threading.Event(), threading.Event()

    def slow_remove(service_id):
        removing.set()
        assert go_on.wait(10)
        remove(service_id)

    monkeypatch.setattr(parts.host, "remove", slow_remove)
    deletion = threading.Thread(target=parts.serving.services.delete, args=(SPACE, "iris-service"))
    deletion.start()
    assert removing.wait(10)
    again = parts.deploy()
    go_on.set()
    deletion.join()
    assert parts.host.service_ids() == [again.id]


def test_a_start_applies_what_a_killed_service_had_stored_but_not_told(parts):
    made = parts.deploy()
    parts.host.remove(made.id)
    parts.restarted().serving.keeper.reconcile([])
    assert parts.host.specs[made.id].revision == 1


def test_a_start_removes_what_is_stored_no_longer(parts):
    made = parts.deploy()
    parts.host.apply(parts.host.specs[made.id].__class__(**{**vars(parts.host.specs[made.id]), "id": "left-over"}))
    parts.restarted().serving.keeper.reconcile(parts.host.service_ids())
    assert parts.host.service_ids() == [made.id]


def test_a_start_applies_the_operators_new_settings_as_a_new_generation(parts):
    made = parts.deploy()
    parts.restarted().serving.keeper.reconcile([])
    assert parts.host.specs[made.id].generation == 1
    elsewhere = Listening("127.0.0.2", ("models.example",), request_bytes=1000)
    restarted = parts.restarted(web_services=elsewhere)
    restarted.serving.keeper.reconcile([])
    spec = parts.host.specs[made.id]
    assert (spec.generation, spec.revision) == (2, 1)
    assert (spec.host, spec.host_names, spec.limits.request_bytes) == ("127.0.0.2", ("models.example",), 1000)
    assert restarted.record()["scoring_uri"] == "http://models.example:4711/score"


def test_one_web_service_that_cannot_be_applied_does_not_keep_others_from_it(parts):
    parts.deploy("first-one")
    parts.model("other")
    second = parts.deploy("second-one", models=["other:1"])
    parts.base.stores.assets.delete(SPACE, AssetKind.MODEL, "iris")
    parts.host.specs.clear()
    parts.restarted().serving.keeper.reconcile([])
    assert parts.host.service_ids() == [second.id]


def test_the_keeper_revives_the_host_again_and_again_until_it_is_stopped(parts, monkeypatch):
    monkeypatch.setattr("runyard.services.web_services.keeping.LOOK_EVERY_SECONDS", 0.0)
    thrice = threading.Event()

    def revive():
        parts.host.revived += 1
        if parts.host.revived == 1:
            raise OSError("no room for a socket")
        if parts.host.revived >= 3:
            thrice.set()

    parts.host.revive = revive
    parts.serving.keeper.start()
    assert thrice.wait(10)
    parts.serving.keeper.stop()


def test_images_bring_their_models_and_their_script(parts):
    image = {"models": ["iris:1"], "inference": parts.inference()}
    kept = parts.serving.blueprints.checked_image(SPACE, image)
    parts.base.stores.assets.add(SPACE, AssetKind.IMAGE, "box", kept, {})
    definition = {"type": "ACI", "image_id": "box:1"}
    parts.serving.services.deploy(SPACE, NewService("boxed", definition))
    (spec,) = parts.host.applied
    assert (spec.entry_script, spec.models[0].name) == ("score.py", "iris")
    assert names(parts, image="box") == names(parts, image="box:1") == ["boxed"]
    with pytest.raises(NotFound, match="image 'none:1'"):
        parts.serving.services.deploy(SPACE, NewService("unboxed", {**definition, "image_id": "none:1"}))
    parts.change("boxed", models=["iris:1"])
    assert parts.record("boxed")["image_id"] is None


def test_a_deployment_is_planned_without_being_made(parts):
    spec = parts.serving.blueprints.plan(SPACE, "package", {"models": ["iris:1"], "inference": parts.inference()})
    assert (spec.scorer, spec.models[0].name) == (Scorer.SCRIPT, "iris")
    assert (names(parts), parts.host.applied) == ([], [])
