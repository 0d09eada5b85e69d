"""Pulls from a real private registry, and from ones that answer badly."""

from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.environments.containers.build_context import build_context
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.registries import RegistryCredentials
from runyard.testing.container_engine import Registry, running_docker
from runyard.testing.small_disk import mounted
from tests.images.conftest import engine_folder
from tests.images.registry_answers import registry_that_answers

pytestmark = pytest.mark.images


def cause_of_pull(
    engine: ContainerEngine, reference: str, credentials: RegistryCredentials | None = None
) -> FailureCause:
    with pytest.raises(EnvironmentFailed) as failed:
        engine.images.pull(reference, print, credentials=credentials)
    assert reference in failed.value.problem
    assert failed.value.hint
    assert failed.value.facts["said"]
    return failed.value.facts["cause"]


def test_an_image_is_pulled_with_its_password_which_no_line_tells(engine: ContainerEngine, registry: Registry) -> None:
    name = f"{registry.address}/team/debian:12"
    lines: list[str] = []
    pulled = engine.images.pull(name, lines.append, credentials=registry.credentials)
    assert any(digest.startswith(f"{registry.address}/team/debian@sha256:") for digest in pulled.digests)
    assert lines
    assert len(lines) == len(set(lines)) < 20
    told = [*lines, *engine.images.history(name), repr(pulled), repr(registry.credentials)]
    assert not [line for line in told if registry.password in line]
    engine.images.remove(name)


def test_a_dockerfile_starts_from_a_private_image(engine: ContainerEngine, registry: Registry) -> None:
    context = build_context(f"FROM {registry.address}/team/debian:12\nRUN echo from the private one\n")
    lines: list[str] = []
    engine.images.build(
        context, lines.append, name="tests/private:1", credentials={registry.address: registry.credentials}
    )
    assert "from the private one" in lines
    assert not [line for line in lines if registry.password in line]
    engine.images.remove("tests/private:1", is_forced=True)
    engine.images.remove(f"{registry.address}/team/debian:12", is_forced=True)


def test_a_wrong_password_and_none_are_told_apart_from_an_image_that_is_not_there(
    engine: ContainerEngine, registry: Registry
) -> None:
    name = f"{registry.address}/team/debian:12"
    wrong = RegistryCredentials(registry.username, "guessed", registry.address)
    assert cause_of_pull(engine, name, wrong) == FailureCause.WRONG_CREDENTIALS
    assert cause_of_pull(engine, name) == FailureCause.WRONG_CREDENTIALS
    other = f"{registry.address}/team/debian:13"
    assert cause_of_pull(engine, other, registry.credentials) == FailureCause.IMAGE_NOT_FOUND
    absent = f"{registry.address}/team/nothing:1"
    assert cause_of_pull(engine, absent, registry.credentials) == FailureCause.IMAGE_NOT_FOUND


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (401, FailureCause.WRONG_CREDENTIALS),
        (403, FailureCause.WRONG_CREDENTIALS),
        (404, FailureCause.IMAGE_NOT_FOUND),
        (500, FailureCause.REGISTRY_FAILED),
        (429, FailureCause.REGISTRY_FAILED),
    ],
)
def test_what_a_registry_answers_has_a_cause(docker: ContainerEngine, status: int, cause: FailureCause) -> None:
    with registry_that_answers(status) as address:
        assert cause_of_pull(docker, f"{address}/image:1") == cause


def test_a_registry_that_is_not_there_or_silent_is_the_network(docker: ContainerEngine) -> None:
    assert cause_of_pull(docker, "127.0.0.1:1/image:1") == FailureCause.NETWORK
    with registry_that_answers(None) as address:
        assert cause_of_pull(docker, f"{address}/image:1") == FailureCause.NETWORK


def test_an_image_for_another_processor_is_refused(docker: ContainerEngine, registry: Registry, tmp_path: Path) -> None:
    name = f"{registry.address}/team/other:1"
    (tmp_path / "file").write_text("for any processor")
    context = build_context("FROM scratch\nCOPY file /file\n", [("file", tmp_path / "file", 0o644)])
    assert docker.images.build(context, print, name=name, platform="linux/arm64").architecture == "arm64"
    docker.images.push(name, lambda _: None, credentials=registry.credentials)
    docker.images.remove(name)
    assert cause_of_pull(docker, name, registry.credentials) == FailureCause.ARCHITECTURE


def test_a_disk_that_fills_is_told(registry: Registry, tmp_path: Path) -> None:
    name = f"{registry.address}/team/debian:12"
    with mounted(tmp_path / "small", 60) as small, running_docker(engine_folder(), images=small / "images") as engine:
        assert cause_of_pull(engine, name, registry.credentials) == FailureCause.DISK_FULL
