"""From a registered model to an answering web service, as a user's notebook does it."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, Model, ScriptRunConfig, Webservice, Workspace
from azureml.core.compute import AksCompute, ComputeTarget
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice, AksWebservice, LocalWebservice
from azureml.exceptions import UserErrorException, WebserviceException
from tests.sdk.served import FAILING, a_model, deployed, echo_script, here
from tests.servers.certificates import make_certificate


@pytest.fixture
def model(workspace: Workspace, tmp_path: Path) -> Model:
    return a_model(workspace, tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def post(address: str, body: bytes, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_script_answers_and_the_lines_of_v1_are_printed(workspace, model, source, capsys):
    service = Model.deploy(workspace, "first", [model], echo_script(source, "one"))
    assert isinstance(service, AciWebservice)
    service.wait_for_deployment(show_output=True)
    said = capsys.readouterr().out
    ending = r'Running\.*\nSucceeded\nACI service creation operation finished, operation "Succeeded"\n\Z'
    assert re.search(ending, said), said
    assert service.state == "Healthy"
    assert re.fullmatch(r"http://localhost:\d+/score", service.scoring_uri)
    assert service.run(json.dumps({"a": 1})) == {"said": "one", "got": {"a": 1}}
    assert service.run(b'{"a": 2}') == {"said": "one", "got": {"a": 2}}
    assert "init of one" in service.get_logs()
    assert [one.id for one in service.models] == ["net:1"]
    with urllib.request.urlopen(service.swagger_uri) as answer:
        assert "/score" in json.dumps(json.loads(answer.read()))
    service.delete()
    with pytest.raises(WebserviceException, match="WebserviceNotFound"):
        Webservice(workspace, "first")


def test_an_init_that_fails_is_told_with_traceback_log_and_state(workspace, model, source, capsys):
    (source / "score.py").write_text(FAILING)
    service = Model.deploy(workspace, "failing", [model], InferenceConfig(
        "score.py", source_directory=str(source), environment=here()))  # fmt: skip
    with pytest.raises(WebserviceException) as caught:
        service.wait_for_deployment(show_output=True)
    said = caught.value.message
    assert "the weights are of another shape" in said
    assert 'score.py", line 4, in init' in said
    assert "about to fail" in said
    assert "current service state: Failed" in said
    assert (service.state, service.error["message"]) == ("Failed", service.error["message"])
    assert capsys.readouterr().out.endswith('\nFailed\nACI service creation operation finished, operation "Failed"\n')
    service.delete()


def test_a_bad_answer_is_an_exception_with_status_and_body(workspace, model, source):
    with deployed(workspace, "answers", [model], echo_script(source, "x")) as service:
        with pytest.raises(WebserviceException, match="Response Code: 500") as caught:
            service.run("{broken")
        assert caught.value.status_code == 500
        with pytest.raises(WebserviceException, match="input_data must be text or bytes"):
            service.run({"a": 1})


def test_an_update_changes_script_model_and_tags_of_the_same_address(workspace, model, source, tmp_path):
    with deployed(workspace, "updated", [model], echo_script(source, "one")) as service:
        address = service.scoring_uri
        newer = a_model(workspace, tmp_path)
        service.update(models=[newer], inference_config=echo_script(source, "two"), tags={"a": "1"}, description="d")
        service.wait_for_deployment()
        assert service.run("1") == {"said": "two", "got": 1}
        assert (service.scoring_uri, [one.id for one in service.models]) == (address, ["net:2"])
        service.update(tags={"b": "2"})
        assert (Webservice(workspace, "updated").tags, service.description) == ({"b": "2"}, "d")
        service.add_tags({"c": "3"})
        service.remove_tags(["b"])
        service.add_properties({"p": "1"})
        with pytest.raises(WebserviceException, match="p"):
            service.add_properties({"p": "2"})
        found = Webservice(workspace, "updated")
        assert (found.tags, found.properties) == ({"c": "3"}, {"p": "1"})
        with pytest.raises(WebserviceException, match="nothing to update"):
            service.update()


def test_an_update_that_fails_leaves_the_old_version_answering(workspace, model, source):
    with deployed(workspace, "kept", [model], echo_script(source, "one")) as service:
        (source / "score.py").write_text(FAILING)
        service.update(inference_config=InferenceConfig(
            "score.py", source_directory=str(source), environment=here()))  # fmt: skip
        with pytest.raises(WebserviceException, match="deployed before answers on"):
            service.wait_for_deployment()
        assert service.run("1") == {"said": "one", "got": 1}


def test_keys_are_asked_for_where_they_are_enabled_and_can_be_made_anew(workspace, model, source):
    config = AciWebservice.deploy_configuration(auth_enabled=True, primary_key="first-key-of-mine")
    with deployed(workspace, "keyed", [model], echo_script(source, "x"), config) as service:
        primary, secondary = service.get_keys()
        assert primary == "first-key-of-mine"
        assert service.run("1") == {"said": "x", "got": 1}
        assert post(service.scoring_uri, b"1")[0] == 401
        assert post(service.scoring_uri, b"1", Authorization="Bearer " + secondary)[0] == 200
        Webservice(workspace, "keyed").regen_key("Primary")
        assert post(service.scoring_uri, b"1", Authorization="Bearer " + primary)[0] == 401
        assert service.run("1") == {"said": "x", "got": 1}
        service.regen_key("Secondary", set_key="second-key-of-mine")
        assert service.get_keys()[1] == "second-key-of-mine"
        with pytest.raises(WebserviceException, match="'Primary' or 'Secondary'"):
            service.regen_key("third")
        with pytest.raises(NotImplementedError):
            service.get_token()


def test_a_cluster_is_a_name_for_this_machine(workspace, model, source):
    echo_script(source, "x")
    target = ComputeTarget.create(workspace, "my-aks", AksCompute.provisioning_configuration(agent_count=3))
    target.wait_for_completion(show_output=True)
    assert (target.provisioning_state, type(ComputeTarget(workspace, "my-aks"))) == ("Succeeded", AksCompute)
    assert type(workspace.compute_targets["my-aks"]) is AksCompute
    with pytest.raises(UserErrorException, match="my-aks"):
        Experiment(workspace, "runs").submit(ScriptRunConfig(str(source), "score.py", compute_target=target))
    config = AksWebservice.deploy_configuration(token_auth_enabled=True, num_replicas=1, scoring_timeout_ms=5000)
    with deployed(workspace, "on-aks", [model], echo_script(source, "x"), config, target) as service:
        assert service.scoring_uri.endswith("/api/v1/service/on-aks/score")
        assert service.compute_name == "my-aks"
        token, refresh_by = service.get_token()
        assert post(service.scoring_uri, b"1", Authorization="Bearer " + token)[0] == 200
        assert post(service.scoring_uri, b"1", Authorization="Bearer other")[0] == 401
        assert service.run("1") == {"said": "x", "got": 1}
        assert refresh_by.year > 2000
    with pytest.raises(WebserviceException, match="deployment_target"):
        Model.deploy(
            workspace, "elsewhere", [model], echo_script(source, "x"), AciWebservice.deploy_configuration(), target
        )
    target.delete()
    attached = ComputeTarget.attach(workspace, "mine", AksCompute.attach_configuration(resource_id="/x"))
    assert attached.is_attached
    attached.detach()
    assert dict(workspace.compute_targets) == {}


def test_a_local_service_takes_the_edited_script_at_reload(workspace, model, source):
    echo_script(source, "one")
    config = InferenceConfig(str(source / "score.py"), environment=here())
    service = Model.deploy(workspace, "local", [model], config, LocalWebservice.deploy_configuration())
    try:
        assert service.state == LocalWebservice.STATE_DEPLOYING
        service.wait_for_deployment()
        assert (service.state, service.run("1")["said"]) == (LocalWebservice.STATE_RUNNING, "one")
        echo_script(source, "two")
        service.reload()
        assert service.run("1")["said"] == "two"
        service.reload(wait=True)
        assert service.run("1")["said"] == "two"
        again = Model.deploy(workspace, "local", [model], echo_script(source, "three"),
                             LocalWebservice.deploy_configuration())  # fmt: skip
        assert again.run("1")["said"] == "three"
        again.update(inference_config=echo_script(source, "four"), wait=True)
        assert (again.run("1")["said"], LocalWebservice(workspace, "local").port) == ("four", again.port)
        for ask in (again.get_keys, again.get_token, lambda: again.regen_key("Primary")):
            with pytest.raises(NotImplementedError):
                ask()
        assert [one.name for one in LocalWebservice.list(workspace)] == ["local"]
    finally:
        service.delete()
    assert service.state == LocalWebservice.STATE_DELETED
    service.update_deployment_state()
    assert service.state == LocalWebservice.STATE_DELETED
    assert LocalWebservice(workspace, "local", must_exist=False).state == LocalWebservice.STATE_UNKNOWN


def test_a_local_service_is_deployed_to_the_cloud_as_it_is(workspace, model, source):
    with deployed(workspace, "draft", [model], echo_script(source, "one"),
                  LocalWebservice.deploy_configuration()) as draft:  # fmt: skip
        service = draft.deploy_to_cloud("final", AciWebservice.deploy_configuration(tags={"k": "v"}))
        service.wait_for_deployment()
        assert (service.run("1"), service.tags) == ({"said": "one", "got": 1}, {"k": "v"})
        service.delete()


def test_a_service_with_a_certificate_speaks_tls(workspace, model, source, tmp_path):
    made = make_certificate(tmp_path / "tls", "www.example.org")
    config = AciWebservice.deploy_configuration(
        ssl_enabled=True, ssl_cert_pem_file=str(made.chain), ssl_key_pem_file=str(made.key), ssl_cname="www.example.org"
    )
    with deployed(workspace, "secured", [model], echo_script(source, "x"), config) as service:
        assert (service.scoring_uri[:8], service.ssl_enabled, service.cname) == ("https://", True, "www.example.org")
        assert service.run("1") == {"said": "x", "got": 1}
        assert "PRIVATE KEY" not in json.dumps(service._record)
        newer = make_certificate(tmp_path / "newer", "www.example.org")
        service.update(ssl_cert_pem_file=str(newer.chain), ssl_key_pem_file=str(newer.key))
        assert (service.ssl_certificate, service.cname) == (newer.chain.read_text(), "www.example.org")
        assert service.run("2") == {"said": "x", "got": 2}  # the SDK believes the newer certificate alone


def test_a_deployment_that_takes_longer_than_timeout_sec_is_told(workspace, model, source):
    (source / "score.py").write_text("import time\ndef init():\n    time.sleep(600)\ndef run(data):\n    return 1\n")
    config = InferenceConfig("score.py", source_directory=str(source), environment=here())
    service = Model.deploy(workspace, "slow", [model], config)
    with pytest.raises(WebserviceException, match=r"not deployed after 0\.5 seconds \(timeout_sec\)"):
        service.wait_for_deployment(timeout_sec=0.5)
    service.delete()


def test_lists_are_filtered_as_in_v1(workspace, model, source, tmp_path):
    script = echo_script(source, "x")
    config = AciWebservice.deploy_configuration(tags={"area": "a", "kind": "b"})
    with (
        deployed(workspace, "tagged", [model], script, config),
        deployed(workspace, "plain", [a_model(workspace, tmp_path, "other")], script,
                 AksWebservice.deploy_configuration()),
    ):  # fmt: skip

        def names(**filters: Any) -> list[str]:
            return sorted(one.name for one in Webservice.list(workspace, **filters))

        assert names() == sorted(workspace.webservices) == ["plain", "tagged"]
        assert names(tags=["area"]) == names(tags=[["area", "a"]]) == names(compute_type="ACI") == ["tagged"]
        assert names(tags=[["area", "z"]]) == names(compute_type="Local") == []
        assert names(model_name="other") == names(model_id="other:1") == names(compute_type="AKS") == ["plain"]
        with pytest.raises(WebserviceException, match="compute_type must be one of"):
            names(compute_type="cloud")
        with pytest.raises(WebserviceException, match="is of type ACI"):
            AksWebservice(workspace, "tagged")
        same = Webservice.deserialize(workspace, Webservice(workspace, "tagged").serialize())
        assert (same.name, type(same)) == ("tagged", AciWebservice)


def test_a_name_is_taken_once_unless_overwritten(workspace, model, source):
    with deployed(workspace, "taken", [model], echo_script(source, "one")) as service:
        with pytest.raises(WebserviceException, match="taken"):
            Model.deploy(workspace, "taken", [model], echo_script(source, "two"))
        with pytest.raises(WebserviceException, match="already"):
            Webservice.check_for_existing_webservice(workspace, "taken")
        newer = Model.deploy(workspace, "taken", [model], echo_script(source, "two"), overwrite=True)
        newer.wait_for_deployment()
        assert newer.run("1")["said"] == Webservice(workspace, "taken").run("1")["said"] == "two"
        assert service.name == newer.name


def test_a_model_that_is_deployed_cannot_be_deleted(workspace, model, source):
    with (
        deployed(workspace, "holding", [model], echo_script(source, "x")),
        pytest.raises(WebserviceException, match="holding"),
    ):
        model.delete()
    model.delete()


@pytest.mark.parametrize("name", ["Capital", "ab", "a" * 33, "-a-b", "a_b", "../x", "abc\n", "", None, "änder"])
def test_names_that_no_web_service_can_have_are_refused(workspace, model, source, name):
    with pytest.raises(WebserviceException, match="web service name"):
        Model.deploy(workspace, name, [model], echo_script(source, "x"))


def test_without_a_script_one_model_with_a_framework_is_needed(workspace, model, tmp_path):
    with pytest.raises(UserErrorException, match="no model_framework"):
        Model.deploy(workspace, "no-code", [model])
    custom = a_model(workspace, tmp_path, model_framework=Model.Framework.CUSTOM)
    with pytest.raises(UserErrorException, match="'Custom'"):
        Model.deploy(workspace, "no-code", [custom])
    for models in ([], [model, custom]):
        with pytest.raises(UserErrorException, match="exactly one model"):
            Model.deploy(workspace, "no-code", models)
    with pytest.raises(WebserviceException, match="models must be a list"):
        Model.deploy(workspace, "no-code", model)
    with pytest.raises(WebserviceException, match="ModelNotFound"):
        Model.deploy(workspace, "no-code", ["absent:1"])
    with pytest.raises(WebserviceException, match="inference_config must be an InferenceConfig"):
        Model.deploy(workspace, "no-code", [model], "score.py")
    with pytest.raises(WebserviceException, match="deployment_config must come from"):
        Model.deploy(workspace, "no-code", [model], None, {"cpu_cores": 1})


def test_the_whole_source_directory_is_there_under_its_name(workspace, model, source):
    (source / "deep").mkdir()
    (source / "extra.json").write_text('{"word": "hello"}')
    (source / ".amlignore").write_text("extra.json\n")
    (source / "neighbour.py").write_text("WORD = 'near'\n")
    (source / "deep" / "score.py").write_text(
        "import json, os\nimport neighbour\n"
        "def init():\n    global words\n"
        "    words = [json.load(open('./source/extra.json'))['word'], neighbour.WORD,"
        " os.path.basename(os.environ['AZUREML_MODEL_DIR'])]\n"
        "def run(data):\n    return words\n"
    )
    config = InferenceConfig("deep/score.py", source_directory=str(source), environment=here())
    with deployed(workspace, "whole", [model], config) as service:
        assert service.run("1") == ["hello", "near", "1"]


def test_several_models_lie_in_one_tree(workspace, model, source, tmp_path):
    other = a_model(workspace, tmp_path, "other")
    (source / "score.py").write_text(
        "import os\nfrom azureml.core.model import Model\n"
        "def init():\n    pass\n"
        "def run(data):\n    root = os.environ['AZUREML_MODEL_DIR']\n"
        "    return [os.path.relpath(Model.get_model_path(name), root) for name in ('net', 'other')]\n"
    )
    config = InferenceConfig("score.py", source_directory=str(source), environment=here())
    with deployed(workspace, "several", [model, "other"], config) as service:
        assert service.run("1") == ["net/1/weights.bin", "other/1/weights.bin"]
        assert [one.id for one in service.models] == [model.id, other.id]
