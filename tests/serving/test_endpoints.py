"""Several versions behind one port."""

import http.client
import os
import signal
from collections import Counter
from dataclasses import replace

import pytest

from runyard.core.records.web_services import Scale, ServiceSpec, ServiceState, VersionShare
from tests.serving.hosting import Hosting, ask, eventually
from tests.serving.load import under_load


def saying(word: str) -> str:
    return f"def init(): pass\ndef run(body):\n    return {word!r}\n"


def behind(hosting: Hosting, **shares: int) -> ServiceSpec:
    """An endpoint whose versions answer with their names; the first is the default. Both are deployed."""
    versions = []
    for name, share in shares.items():
        spec = hosting.spec(saying(name), is_version=True)
        hosting.deploy(spec)
        versions.append(VersionShare(name, spec.id, share, is_default=not versions))
    endpoint = hosting.spec(versions=tuple(versions), code=(), entry_script="")
    hosting.deploy(endpoint)
    return endpoint


def split(hosting: Hosting, endpoint: ServiceSpec, **shares: int) -> ServiceSpec:
    """The endpoint after its shares have changed."""
    versions = tuple(replace(one, share=shares[one.name]) for one in endpoint.versions if one.name in shares)
    changed = hosting.changed(endpoint, versions=versions)
    hosting.host.apply(changed)
    return changed


def counted(port: int, requests: int) -> Counter[str]:
    return Counter(ask(port)[1] for _ in range(requests))


def port_of(hosting: Hosting, endpoint: ServiceSpec) -> int:
    return hosting.until(endpoint, lambda seen: seen.state is ServiceState.HEALTHY).port


def test_each_version_gets_its_share_of_the_requests(hosting: Hosting) -> None:
    port = port_of(hosting, endpoint := behind(hosting, a=60, b=30, c=10))
    assert counted(port, 100) == {"a": 60, "b": 30, "c": 10}
    assert counted(port, 10) == {"a": 6, "b": 3, "c": 1}
    split(hosting, endpoint, a=0, b=50, c=50)
    assert counted(port, 20) == {"b": 10, "c": 10}


def test_a_version_has_no_port_and_answers_name_it(hosting: Hosting) -> None:
    port = port_of(hosting, endpoint := behind(hosting, first=100))
    assert hosting.host.observe(endpoint.versions[0].service_id).port == 0
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/score", b"1")
    answer = connection.getresponse()
    assert (answer.read(), answer.getheader("azureml-model-deployment")) == (b'"first"', "first")
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"Healthy"
    connection.close()


def test_large_bodies_and_answers_pass_through_an_endpoint(hosting: Hosting) -> None:
    hosting.deploy(version := hosting.spec(is_version=True))
    hosting.deploy(endpoint := hosting.spec(versions=(VersionShare("a", version.id, 100, is_default=True),)))
    body = b'"%b"' % (b"x" * (4 << 20))
    assert ask(port_of(hosting, endpoint), body) == (200, body.decode())


def test_what_a_version_that_is_down_would_get_goes_to_the_others(hosting: Hosting) -> None:
    good, bad = hosting.spec(saying("good"), is_version=True), hosting.spec("def init(): 1/0", is_version=True)
    hosting.deploy(good)
    assert hosting.deploy(bad).state is ServiceState.FAILED
    shares = (VersionShare("good", good.id, 10, is_default=True), VersionShare("bad", bad.id, 90))
    hosting.deploy(endpoint := hosting.spec(versions=shares))
    port = port_of(hosting, endpoint)
    assert counted(port, 20) == {"good": 20}
    assert hosting.deploy(hosting.changed(bad, saying("better"))).state is ServiceState.HEALTHY
    assert counted(port, 20) == {"good": 2, "better": 18}


def test_an_update_of_one_version_under_load_fails_no_request_and_leaves_the_other_alone(hosting: Hosting) -> None:
    one, two = (hosting.spec(saying(word), is_version=True, scale=Scale()) for word in ("one", "two"))
    hosting.deploy(one)
    hosting.deploy(two)
    shares = (VersionShare("one", one.id, 50, is_default=True), VersionShare("two", two.id, 50))
    hosting.deploy(endpoint := hosting.spec(versions=shares))
    port, untouched = port_of(hosting, endpoint), hosting.workers(one)
    with under_load(port) as load:
        hosting.deploy(two := hosting.changed(two, saying("new")))
        eventually(lambda: load.bodies[b'"new"'] > 20, "answers of the new revision")
        split(hosting, endpoint, one=100)
        hosting.host.remove(two.id)
        before = load.bodies[b'"one"']
        eventually(lambda: load.bodies[b'"one"'] > before + 50, "answers of the version that is left")
    assert set(load.statuses) == {200}
    assert hosting.workers(one) == untouched


def test_endpoint_and_versions_come_back_with_the_gateway(hosting: Hosting) -> None:
    port = port_of(hosting, endpoint := behind(hosting, a=50, b=50))
    version = hosting.host.observe(endpoint.id).version
    os.kill(hosting.gateway(), signal.SIGKILL)
    hosting.until(endpoint, lambda seen: seen.version > version and seen.replicas == 2)
    assert counted(port, 10) == {"a": 5, "b": 5}


def test_a_port_that_is_taken_is_told(hosting: Hosting) -> None:
    taken = hosting.deploy(hosting.spec()).port
    version = hosting.spec(is_version=True)
    hosting.deploy(version)
    endpoint = hosting.spec(versions=(VersionShare("a", version.id, 100, is_default=True),), port=taken)
    seen = hosting.deploy(endpoint)
    assert (seen.revision, seen.failed_revision) == (0, 1)
    assert str(taken) in seen.trouble.problem


@pytest.mark.parametrize("asked", [1, 7, 100])
def test_metrics_count_all_versions_and_each(hosting: Hosting, asked: int) -> None:
    port = port_of(hosting, endpoint := behind(hosting, a=50, b=50))
    counted(port, asked)
    told = hosting.host.metrics(endpoint.id)
    each = [version["requests"].get("200", 0) for version in told["versions"].values()]
    assert (told["requests"]["200"], sum(each), len(told["replicas"])) == (asked, asked, 2)
    assert max(each) - min(each) <= 1
