"""A container engine, base images and a registry with a password, started once for all tests of this folder.

Needs root and the programs that `make ci-setup` installs; where those are missing the tests say so, and fail in CI.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runyard.environments.builder import prune_environments
from runyard.environments.containers.engine import ContainerEngine
from runyard.testing.base_images import PLAIN, WITH_MPI, WITH_PYTHON, debian_archive
from runyard.testing.container_engine import (
    Registry,
    missing_programs,
    running_docker,
    running_podman,
    running_registry,
)
from tests.environments.wheelhouse import submitter_without_index
from tests.images.building import ImageHome

LONGEST_PLACE = 30


def engine_folder() -> Path:
    """With a short path: podman refuses a folder of its own whose path is longer than 50 characters. Its guard removes
    it, wherever it lies."""
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="engine-", dir=usual if len(usual) <= LONGEST_PLACE else "/tmp"))


@pytest.fixture(scope="session")
def docker(_able: None) -> Iterator[ContainerEngine]:
    """A real dockerd of this session. Child processes find it by DOCKER_HOST=docker.address."""
    with running_docker(engine_folder()) as engine:
        yield engine


@pytest.fixture(scope="session")
def podman(_able: None) -> Iterator[ContainerEngine]:
    with running_podman(engine_folder()) as engine:
        yield engine


@pytest.fixture(scope="session", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> ContainerEngine:
    """Each engine in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def base(engine: ContainerEngine) -> str:
    """A Debian without any Python, in `engine`."""
    return imported(engine, PLAIN)


@pytest.fixture
def own_docker(_able: None) -> Iterator[Callable[[], ContainerEngine]]:
    """Starts a dockerd that the test may stop or fill: nobody else has it."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(running_docker(engine_folder()))


@pytest.fixture(scope="session")
def debian(docker: ContainerEngine) -> str:
    """A Debian without any Python, in `docker`."""
    return imported(docker, PLAIN)


@pytest.fixture(scope="session")
def debian_python(docker: ContainerEngine) -> str:
    """A Debian with its own Python 3 as /usr/bin/python3."""
    return imported(docker, WITH_PYTHON)


@pytest.fixture(scope="session")
def debian_mpi(docker: ContainerEngine) -> str:
    """A Debian with Open MPI and no Python."""
    return imported(docker, WITH_MPI)


@pytest.fixture(scope="session")
def registry(_able: None, docker: ContainerEngine, debian: str) -> Iterator[Registry]:
    """A private registry that holds `ADDRESS/team/debian:12`, the image of `debian`."""
    with running_registry(engine_folder()) as served:
        name = f"{served.address}/team/debian:12"
        docker.images.tag(debian, name)
        docker.images.push(name, lambda _: None, credentials=served.credentials)
        docker.images.remove(name)
        yield served


def imported(engine: ContainerEngine, kind: str) -> str:
    name = f"debian-{kind}:12"
    with debian_archive(kind).open("rb") as archive:
        engine.images.import_archive(archive, name)
    return name


@pytest.fixture(scope="session")
def _able() -> None:
    missing = missing_programs()
    if not missing and os.geteuid() == 0:
        return
    why = f"missing: {', '.join(missing)} (make ci-setup)" if missing else "starting a container engine needs root"
    (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def image_home(
    docker: ContainerEngine, tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ImageHome]:
    """Its images are gone at the end."""
    monkeypatch.setenv("DOCKER_HOST", docker.address)
    # With the tester's own HOME, where interpreters of other versions are.
    variables = {**submitter_without_index(tmp_path, wheels), "HOME": os.environ["HOME"], "PIP_CONFIG_FILE": os.devnull}
    home = ImageHome(docker, tmp_path / "home" / "environments", variables)
    before = home.in_engine()
    yield home
    os.environ["DOCKER_HOST"] = docker.address  # a test may have chosen another
    prune_environments(home.root)
    assert home.in_engine() == before
