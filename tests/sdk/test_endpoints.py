"""Rolling out a model behind one address, as a user's notebook does it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Model, Webservice, Workspace
from azureml.core.webservice import AksEndpoint, AksWebservice
from azureml.exceptions import WebserviceException
from tests.sdk.served import FAILING, a_model, deployed, echo_script

pytestmark = pytest.mark.slow


@pytest.fixture
def model(workspace: Workspace, tmp_path: Path) -> Model:
    return a_model(workspace, tmp_path)


@pytest.fixture
def endpoint(workspace: Workspace, model: Model, tmp_path: Path) -> Any:
    config = AksEndpoint.deploy_configuration(
        tags={"rank": "first"}, description="the first", namespace="ns", version_name="one", traffic_percentile=40
    )
    with deployed(workspace, "endpoint", [model], echo_script(tmp_path, "one"), config) as made:
        yield made


def said(endpoint: AksEndpoint, requests: int = 10) -> Counter[str]:
    return Counter(endpoint.run("1")["said"] for _ in range(requests))


def shared(endpoint: AksEndpoint) -> dict[str, tuple[int, bool, str]]:
    return {name: (one.traffic_percentile, one.is_default, one.version_type) for name, one in endpoint.versions.items()}


def add(endpoint: AksEndpoint, model: Model, folder: Path, name: str, **more: Any) -> None:
    endpoint.create_version(name, models=[model], inference_config=echo_script(folder, name), **more)
    endpoint.wait_for_deployment()


def test_a_model_is_rolled_out_step_by_step(endpoint, model, tmp_path):
    assert (type(endpoint), endpoint.state, endpoint.tags) == (AksEndpoint, "Healthy", {"rank": "first"})
    assert shared(endpoint) == {"one": (40, True, "Control")}
    assert said(endpoint) == {"one": 10}
    add(endpoint, model, tmp_path, "two", traffic_percentile=10, tags={"rank": "second"})
    assert said(endpoint) == {"one": 9, "two": 1}
    endpoint.update_version(
        endpoint.versions["two"].name, description="d", traffic_percentile=40, is_default=True,
        is_control_version_type=True,
    )  # fmt: skip
    endpoint.wait_for_deployment(show_output=True)
    assert shared(endpoint) == {"one": (40, False, "Treatment"), "two": (40, True, "Control")}
    assert said(endpoint) == {"one": 4, "two": 6}
    two = endpoint.versions["two"]
    assert (two.description, two.tags, endpoint.description) == ("d", {"rank": "second"}, "the first")
    endpoint.delete_version("one")
    endpoint.wait_for_deployment()
    assert said(endpoint) == {"two": 10}


def test_a_new_model_of_one_version_leaves_the_others_alone(endpoint, model, tmp_path):
    add(endpoint, model, tmp_path, "two", traffic_percentile=50)
    endpoint.update_version("two", inference_config=echo_script(tmp_path, "three"), tags={"a": "1"})
    endpoint.wait_for_deployment()
    assert said(endpoint) == {"one": 5, "three": 5}
    assert (endpoint.versions["two"].tags, endpoint.versions["one"].tags) == ({"a": "1"}, {"rank": "first"})
    logs = endpoint.get_logs()
    assert (
        logs.index("version one") < logs.index("init of one") < logs.index("version two") < logs.index("init of three")
    )
    assert "init of one" not in endpoint.versions["two"].get_logs()


def test_a_version_that_fails_is_told_and_gets_no_requests(endpoint, model, tmp_path):
    script = echo_script(tmp_path, "bad")
    (tmp_path / "score.py").write_text(FAILING)
    endpoint.create_version("bad", models=[model], inference_config=script, traffic_percentile=60)
    with pytest.raises(WebserviceException, match=r"Version 'bad': .*another shape"):
        endpoint.wait_for_deployment()
    assert (endpoint.state, endpoint.versions["bad"].state) == ("Healthy", "Failed")
    assert said(endpoint) == {"one": 10}
    endpoint.update_version("bad", inference_config=echo_script(tmp_path, "good"))
    endpoint.wait_for_deployment()
    assert said(endpoint) == {"one": 4, "good": 6}


def test_what_cannot_be_is_refused_in_words(endpoint, model, tmp_path):
    add(endpoint, model, tmp_path, "two", traffic_percentile=10)
    with pytest.raises(WebserviceException, match="at most 100, and would be 101"):
        endpoint.update_version("two", traffic_percentile=61)
    with pytest.raises(WebserviceException, match="'one' is the default version of the endpoint"):
        endpoint.delete_version("one")
    with pytest.raises(WebserviceException, match="has no version 'three'"):
        endpoint.delete_version("three")
    with pytest.raises(WebserviceException, match="There is a version 'two' already"):
        add(endpoint, model, tmp_path, "two")
    assert shared(endpoint) == {"one": (40, True, "Control"), "two": (10, False, "Treatment")}
    with pytest.raises(WebserviceException, match="endpoint/one"):
        model.delete()


def test_an_endpoint_is_one_web_service_with_keys_of_its_own(workspace, endpoint, model, tmp_path):
    add(endpoint, model, tmp_path, "two")
    (found,) = Webservice.list(workspace, model_name="net")
    assert (found.name, type(found), [one.id for one in found.models]) == ("endpoint", AksEndpoint, ["net:1"])
    assert Webservice.list(workspace, compute_type="AKS") == []
    endpoint.regen_key("Primary", "another-key-of-mine")
    assert said(endpoint) == {"one": 10}
    endpoint.update(auth_enabled=False, description="open")
    assert (endpoint.auth_enabled, endpoint.description, list(endpoint.versions)) == (False, "open", ["one", "two"])
    assert said(endpoint) == {"one": 10}


def test_a_plain_web_service_takes_the_place_of_an_endpoint(workspace, endpoint, model, tmp_path):
    config = AksWebservice.deploy_configuration(num_replicas=1)
    with deployed(workspace, "endpoint", [model], echo_script(tmp_path, "plain"), config, overwrite=True) as plain:
        assert (type(plain), plain.run("1")["said"]) == (AksWebservice, "plain")
        assert len(Webservice.list(workspace)) == 1
