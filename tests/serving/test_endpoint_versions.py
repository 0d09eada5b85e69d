"""Endpoints and their versions in the store and at the host."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.errors import AlreadyExists, Conflict, EngineError, InvalidArgument, NotFound
from runyard.core.principal import OWNER
from runyard.core.records.assets import Asset
from runyard.core.records.web_services import ServiceFailure, ServiceState
from runyard.serving.deployments.web_services import NewService, ServiceFilter
from tests.serving.web_service_parts import SPACE, Parts, changes_of, opened_parts

NAME = "the-endpoint"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with opened_parts(tmp_path) as opened:
        opened.model()
        yield opened


def deploy(parts: Parts, name: str = NAME, *, overwrite: bool = False, **config: Any) -> Asset:
    definition = {
        "type": "AKS",
        "models": ["iris:1"],
        "inference": parts.inference(),
        "config": {"version_name": "one", "traffic_percentile": 40, **config},
    }
    return parts.serving.endpoints.deploy(
        OWNER, SPACE, NewService(name, DeploymentSpec.parse(definition), overwrite=overwrite)
    )


def add(parts: Parts, version: str, **config: Any) -> Asset:
    definition = {"models": ["iris:1"], "inference": parts.inference(), "config": config}
    return parts.serving.endpoints.add_version(
        OWNER, SPACE, NAME, NewService(version, DeploymentSpec.parse(definition))
    )


def change(parts: Parts, version: str, **changes: Any) -> Asset:
    return parts.serving.endpoints.change_version(OWNER, SPACE, NAME, version, changes_of(**changes))


def shares(parts: Parts) -> dict[str, int]:
    (endpoint,) = [spec for spec in parts.host.specs.values() if spec.versions]
    return {version.name: version.share for version in endpoint.versions}


def versions(parts: Parts) -> dict[str, Any]:
    """Specs of the versions at the host, by name."""
    return {spec.name: spec for spec in parts.host.specs.values() if spec.is_version}


def test_the_endpoint_has_the_keys_and_its_version_the_workers(parts: Parts) -> None:
    deploy(parts, primary_key="a-key-of-mine", cpu_cores=2)
    (endpoint,) = [spec for spec in parts.host.specs.values() if spec.versions]
    (version,) = versions(parts).values()
    assert (endpoint.name, endpoint.admission.keys[0], endpoint.models) == (NAME, "a-key-of-mine", ())
    assert (version.variables["OMP_NUM_THREADS"], version.models[0].name) == ("2", "iris")
    assert "a-key-of-mine" not in repr(version)
    assert shares(parts) == {"one": 100}
    assert endpoint.versions[0].service_id == version.id


def test_shares_change_without_new_workers(parts: Parts) -> None:
    deploy(parts)
    add(parts, "two", traffic_percentile=10)
    before = versions(parts)
    change(parts, "two", config={"traffic_percentile": 40, "is_default": True})
    assert shares(parts) == {"one": 40, "two": 60}
    assert versions(parts) == before


def test_a_change_of_one_version_says_nothing_of_another(parts: Parts) -> None:
    deploy(parts)
    add(parts, "two")
    one = versions(parts)[f"{NAME}/one"]
    told = len(parts.host.applied)
    change(parts, "two", inference=parts.inference(b"def init(): pass\ndef run(d): return 2\n"))
    assert [spec.name for spec in parts.host.applied[told:]] == [f"{NAME}/two"]
    assert versions(parts)[f"{NAME}/two"].revision == 2
    assert versions(parts)[f"{NAME}/one"] == one


def test_a_version_that_goes_is_told_to_the_endpoint_first(parts: Parts) -> None:
    deploy(parts)
    add(parts, "two", traffic_percentile=50)
    parts.serving.endpoints.remove_version(OWNER, SPACE, NAME, "two")
    assert (shares(parts), list(versions(parts))) == ({"one": 100}, [f"{NAME}/one"])
    with pytest.raises(Conflict, match="default version"):
        parts.serving.endpoints.remove_version(OWNER, SPACE, NAME, "one")
    with pytest.raises(NotFound, match="'two'"):
        parts.serving.endpoints.remove_version(OWNER, SPACE, NAME, "two")


def test_deleting_an_endpoint_takes_its_versions_along(parts: Parts) -> None:
    deploy(parts)
    add(parts, "two")
    parts.serving.services.delete(OWNER, SPACE, NAME)
    assert parts.host.specs == {}
    assert parts.serving.services.list(OWNER, SPACE, ServiceFilter()) == []
    assert deploy(parts).name == NAME


def test_an_endpoint_whose_deployment_is_refused_leaves_nothing(parts: Parts) -> None:
    parts.host.refusal = EngineError("no gateway")
    with pytest.raises(EngineError):
        deploy(parts)
    parts.host.refusal = None
    deploy(parts)
    with pytest.raises(InvalidArgument, match="at most 100"):
        add(parts, "two", traffic_percentile=61)
    with pytest.raises(AlreadyExists):
        deploy(parts)
    assert list(versions(parts)) == [f"{NAME}/one"]


def test_a_version_whose_share_cannot_be_told_is_taken_back(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(parts)
    apply = parts.host.apply

    def refuse_endpoints(spec: Any) -> None:
        if spec.versions:
            raise EngineError("no gateway")
        apply(spec)

    monkeypatch.setattr(parts.host, "apply", refuse_endpoints)
    with pytest.raises(EngineError):
        add(parts, "two", traffic_percentile=10)
    monkeypatch.undo()
    assert (shares(parts), list(versions(parts))) == ({"one": 100}, [f"{NAME}/one"])
    add(parts, "two", traffic_percentile=10)
    assert shares(parts) == {"one": 90, "two": 10}


def test_what_a_killed_service_left_of_a_version_goes_at_the_next_start(parts: Parts) -> None:
    deploy(parts)
    add(parts, "two")
    seen = parts.serving.services.get(OWNER, SPACE, NAME)
    parts.base.stores.assets.replace(seen, {**seen.body, "versions": seen.body["versions"][:1]}, seen.tags)
    again = parts.restarted()
    again.serving.reconciler.reconcile(parts.host.service_ids())
    assert list(versions(parts)) == [f"{NAME}/one"]
    with pytest.raises(NotFound):
        again.serving.services.get(OWNER, SPACE, f"{NAME}/two")


def test_the_record_of_an_endpoint_is_that_of_its_versions_together(parts: Parts) -> None:
    deploy(parts)
    add(parts, "two", traffic_percentile=10)
    record = parts.record(NAME)
    assert (record.state, record.models, list(record.versions)) == ("Healthy", ["iris:1"], ["one", "two"])
    assert record.scoring_uri == f"http://localhost:4711/api/v1/service/{NAME}/score"
    shown = [(one.name, one.share, one.version_type) for one in record.versions.values()]
    assert shown == [("one", 90, "Control"), ("two", 10, "Treatment")]
    two = versions(parts)[f"{NAME}/two"]
    parts.host.change(two.id, revision=0, state=ServiceState.TRANSITIONING, step="init")
    record = parts.record(NAME)
    assert (record.state, record.step, record.revision < record.wanted_revision) == (
        "Transitioning",
        "init",
        True,
    )
    trouble = ServiceFailure("init() failed.", step="init")
    parts.host.change(two.id, failed_revision=1, state=ServiceState.FAILED, step="", trouble=trouble)
    record = parts.record(NAME)
    assert (record.state, record.error.problem) == ("Healthy", "Version 'two': init() failed.")
    assert record.failed_revision == record.wanted_revision != record.revision


def test_versions_are_no_web_services_of_their_own(parts: Parts) -> None:
    deploy(parts)
    parts.deploy("plain")
    assert [one.name for one in parts.serving.services.list(OWNER, SPACE, ServiceFilter(model="iris"))] == [
        "plain",
        NAME,
    ]
    with pytest.raises(Conflict, match="no endpoint"):
        parts.serving.endpoints.version(OWNER, SPACE, "plain", "one")
    with pytest.raises(InvalidArgument, match="update_version"):
        parts.change(NAME, models=["iris:1"])


def test_overwriting_replaces_endpoint_and_versions(parts: Parts) -> None:
    deploy(parts)
    add(parts, "two")
    deploy(parts, overwrite=True, version_name="three")
    assert list(versions(parts)) == [f"{NAME}/three"]
    parts.deploy(NAME, overwrite=True)
    assert [(spec.name, spec.versions) for spec in parts.host.specs.values()] == [(NAME, ())]
    deploy(parts, overwrite=True)
    assert list(versions(parts)) == [f"{NAME}/one"]
