"""The environment of a web service: from the cache in a moment, else built with its lines in the log."""

import os
from pathlib import Path

import pytest

from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.cache import prune
from tests.environments.index_server import Index, serving
from tests.environments.wheelhouse import add_source, add_wheel, submitter_without_index
from tests.processes import pids, words_of
from tests.serving.hosting import Hosting, ask, eventually

pytestmark = pytest.mark.slow

DEMO = EnvironmentSpec(requirements=("demo",))
USES_DEMO = "import demo\ndef init(): pass\ndef run(body):\n    return demo.version\n"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def variables(tmp_path: Path, wheels: Path) -> dict[str, str]:
    return submitter_without_index(tmp_path, wheels)


def test_what_is_missing_is_built_and_found_the_next_time(
    hosting: Hosting, wheels: Path, variables: dict[str, str]
) -> None:
    add_wheel(wheels, "demo", "1.0")
    first = hosting.spec(USES_DEMO, environment=DEMO, build_variables=variables)
    assert ask(hosting.deploy(first).port) == (200, "1.0")
    assert "demo" in hosting.log(first), "the lines of the build are in the log"
    for wheel in wheels.iterdir():
        wheel.unlink()
    second = hosting.spec(USES_DEMO, environment=DEMO, build_variables=variables)
    assert ask(hosting.deploy(second).port) == (200, "1.0")


def test_addresses_with_passwords_are_put_back_for_the_build(
    hosting: Hosting, wheels: Path, variables: dict[str, str]
) -> None:
    add_wheel(wheels, "demo", "1.0")
    with serving(Index(wheels, login="ada:s3cret")) as index:
        address = f"{index.host}/files/demo-1.0-py3-none-any.whl".replace("://", "://ada:s3cret@")
        marked = address.replace("s3cret", "****0123")
        asked = EnvironmentSpec(requirements=(f"demo @ {marked}",))
        told = {"build_variables": variables, "addresses": {marked: address}}
        spec = hosting.spec(USES_DEMO, environment=asked, **told)
        assert ask(hosting.deploy(spec).port) == (200, "1.0")
    assert "s3cret" not in hosting.log(spec)


def test_a_build_that_fails_is_told_in_the_words_of_the_resolver(
    hosting: Hosting, wheels: Path, variables: dict[str, str]
) -> None:
    missing = EnvironmentSpec(requirements=("no-such-thing",))
    seen = hosting.deploy(hosting.spec(environment=missing, build_variables=variables))
    assert seen.trouble is not None
    assert seen.trouble.step == "environment"
    assert "no-such-thing" in seen.trouble.problem


def test_a_service_removed_while_its_environment_is_built_leaves_nothing(
    hosting: Hosting, wheels: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    for end in ("entered", "leave"):
        os.mkfifo(f"{gate}.{end}")
    add_source(wheels, "demo", "1.0", gate=str(gate))
    spec = hosting.spec(USES_DEMO, environment=DEMO, build_variables=variables)
    hosting.host.apply(spec)
    Path(f"{gate}.entered").read_bytes()
    hosting.host.remove(spec.id)
    assert hosting.host.service_ids() == []
    eventually(lambda: not _builders(hosting.home), "the end of the build")


def test_an_environment_in_use_is_not_pruned(hosting: Hosting, wheels: Path, variables: dict[str, str]) -> None:
    add_wheel(wheels, "demo", "1.0")
    spec = hosting.spec(USES_DEMO, environment=DEMO, build_variables=variables)
    hosting.deploy(spec)
    assert prune(hosting.home / "environments") == []
    hosting.host.remove(spec.id)
    assert len(prune(hosting.home / "environments")) == 1


def _builders(home: Path) -> list[int]:
    command = b"runyard.serving.gateway.environment_build_process\0" + os.fsencode(home)
    return [pid for pid in pids() if command in next(words_of(pid), b"")]
