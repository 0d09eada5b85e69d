"""What becomes of an image build when its builder, its disk or its engine fails, or when it never stops talking."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import VIRTUAL_ENVIRONMENT, FailureCause, PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.builder import prune_environments
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.package_sources import BuildSettings
from runyard.testing.base_images import PLAIN
from runyard.testing.container_engine import kill_engine, running_docker
from runyard.testing.small_disk import mounted
from tests.environments.wheelhouse import add_source, add_wheel
from tests.images.building import ImageHome, of_dockerfile, of_image
from tests.images.conftest import engine_folder, imported

pytestmark = pytest.mark.images
BUILD = """
import json, sys
from pathlib import Path
from runyard.environments.builder import LocalEnvironments
from tests.images.building import of_image
root, variables, base, package = json.loads(sys.stdin.read())
LocalEnvironments(Path(root), variables).ensure(of_image(base, package), print)
"""
KILLED_AT = (
    """
import os, signal, sys
from runyard.environments.containers.containers import Containers
def start(self, container):
    if self.state(container) and step in {e.name.rpartition("-")[2] for e in self.with_labels({}) if e.id == container}:
        os.kill(os.getpid(), signal.SIGKILL)
    return started(self, container)
step, started, Containers.start = sys.argv[1], Containers.start, start
"""
    + BUILD
)
TOO_LITTLE = 20 << 20  # for an interpreter
GATE = "/dev/runyard/given/0/wheels/gate"
"""Where a build container sees the folder of wheels."""


@pytest.fixture(autouse=True)
def demo(image_home: ImageHome, wheels: Path) -> None:
    add_wheel(wheels, "demo", "1.0")


@contextmanager
def at_the_gate(home: ImageHome, wheels: Path, base: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that builds `slow`, and stands in the middle of it."""
    add_source(wheels, "slow", "1.0", gate=GATE)
    for name in ("entered", "leave"):
        os.mkfifo(wheels / f"gate.{name}")
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=dict(os.environ)
    )
    try:
        assert builder.stdin
        builder.stdin.write(json.dumps([str(home.root), dict(home.variables), base, "slow"]))
        builder.stdin.close()
        (wheels / "gate.entered").read_bytes()
        yield builder
    finally:
        builder.kill()
        builder.wait()
        for name in ("entered", "leave"):
            (wheels / f"gate.{name}").unlink()


def test_a_build_that_is_killed_leaves_nothing_that_passes_for_whole(
    image_home: ImageHome, debian_python: str, wheels: Path
) -> None:
    spec = of_image(debian_python, "slow")
    with at_the_gate(image_home, wheels, debian_python) as builder:
        assert image_home.build_containers() == 1
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        assert image_home.environments.find(spec) is None
    built = image_home.ensure(spec)
    assert image_home.build_containers() == 0
    assert image_home.python(built, "import slow; print(slow.version)") == ["1.0"]


@pytest.mark.parametrize("step", ["looking", "python", "filling"])
def test_whatever_step_a_build_is_killed_in_its_container_goes_with_the_next(
    image_home: ImageHome, debian: str, step: str
) -> None:
    given = json.dumps([str(image_home.root), dict(image_home.variables), debian, "demo"])
    killed = subprocess.run([sys.executable, "-c", KILLED_AT, step], input=given, text=True, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL
    assert image_home.build_containers() == 1
    image_home.ensure(of_image(debian, "demo"))
    assert image_home.build_containers() == 0


def test_what_a_killed_build_left_goes_with_the_next_build_of_anything(
    image_home: ImageHome, debian_python: str, wheels: Path
) -> None:
    with at_the_gate(image_home, wheels, debian_python) as builder:
        image_home.ensure(of_image(debian_python, "demo"))
        assert image_home.build_containers() == 1  # of the builder that is at work
        builder.send_signal(signal.SIGKILL)
        builder.wait()
    image_home.ensure(of_image(debian_python, "demo==1.0"))
    assert image_home.build_containers() == 0


def test_images_stay_while_somebody_builds_on_them(image_home: ImageHome, debian: str, wheels: Path) -> None:
    with at_the_gate(image_home, wheels, debian):
        before = image_home.images()
        assert before
        prune_environments(image_home.root)
        assert image_home.images() == before


def test_an_engine_that_dies_in_the_middle_is_named(
    image_home: ImageHome, own_docker: Callable[[], ContainerEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = own_docker()
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("Building the Dockerfile"):
            kill_engine(engine)

    spec = of_dockerfile("FROM scratch\nCOPY a /a\n")
    with pytest.raises(EnvironmentFailed) as failed:
        image_home.environments.ensure(spec, say)
    assert failed.value.facts["cause"] == FailureCause.ENGINE_FAILED
    with pytest.raises(EnvironmentFailed) as failed:
        image_home.environments.ensure(spec, say)
    assert failed.value.facts["cause"] == FailureCause.NO_ENGINE


def test_an_engine_whose_disk_fills_is_told_as_that(
    image_home: ImageHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with mounted(tmp_path / "small", 600) as small, running_docker(engine_folder(), images=small / "images") as engine:
        base = imported(engine, PLAIN)
        with (small / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(small).free - TOO_LITTLE)
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        spec = of_image(base, "demo")
        with pytest.raises(EnvironmentFailed) as failed:
            image_home.ensure(spec)
        assert failed.value.facts["cause"] == FailureCause.DISK_FULL
        assert image_home.environments.find(spec) is None


def test_a_package_that_prints_without_end_fills_no_log(
    image_home: ImageHome, debian_python: str, tmp_path: Path, wheels: Path
) -> None:
    lines = 16_000_000 if os.environ.get("RUNYARD_FAULTS") == "full" else 400_000  # 1 GB, or 25 MB
    add_source(wheels, "loud", "1.0", gate="")
    _make_loud(wheels / "loud-1.0.tar.gz", lines)
    with pytest.raises(EnvironmentFailed) as failed:
        image_home.ensure(of_image(debian_python, "loud"))
    assert sum(map(len, image_home.said)) < 20 << 20
    assert len(str(failed.value)) < 1 << 16


def test_without_an_engine_the_run_is_told_how_to_get_one(
    image_home: ImageHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(EnvironmentFailed, match="no container engine answers") as failed:
        image_home.ensure(of_image("debian:12", "demo"))
    assert failed.value.facts["cause"] == FailureCause.NO_ENGINE
    assert "podman" in failed.value.hint


def test_without_an_engine_a_workspace_may_have_the_packages_all_the_same(
    image_home: ImageHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    image_home.provisions = BuildSettings(PackageSettings(without_engine=VIRTUAL_ENVIRONMENT))
    built = image_home.ensure(of_image("debian:12", "demo"))
    assert built.image == ""
    assert subprocess.check_output([built.python, "-c", "import demo; print(demo.version)"], text=True) == "1.0\n"
    assert "debian:12" in built.warnings[0]
    assert image_home.has_said(built.warnings[0])
    user_managed = EnvironmentSpec(user_managed=True, image=of_image("debian:12").image)
    with pytest.raises(EnvironmentFailed) as failed:
        image_home.ensure(user_managed)
    assert failed.value.facts["cause"] == FailureCause.NO_ENGINE


def test_podman_makes_the_same(
    image_home: ImageHome, podman: ContainerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", podman.address)
    home = replace(image_home, engine=podman, root=tmp_path / "podman" / "environments")
    base = imported(podman, PLAIN)
    built = home.ensure(of_image(base, "demo"))
    assert home.python(built, "import demo, sys; print(demo.version, sys.prefix)") == [f"1.0 /azureml-envs/{built.key}"]
    assert home.environments.find(of_image(base, "demo")) == built
    assert prune_environments(home.root) == [built.key]
    assert home.images() == set()


def _make_loud(archive: Path, lines: int) -> None:
    """Its build prints and then fails."""
    with tarfile.open(archive) as before:
        members = [(member, before.extractfile(member).read()) for member in before.getmembers()]  # type: ignore[union-attr]
    backend = (
        "import os\n"
        "def get_requires_for_build_wheel(config_settings=None): return []\n"
        "def build_wheel(folder, config_settings=None, metadata_directory=None):\n"
        f"    for _ in range({lines} // 1000):\n"
        "        os.write(1, (b'a line of sixty characters, which says nothing to anybody..\\n') * 1000)\n"
        "    raise SystemExit(1)\n"
    )
    with tarfile.open(archive, "w:gz") as after:
        for member, content in members:
            content = backend.encode() if member.name.endswith("backend.py") else content
            member.size = len(content)
            after.addfile(member, io.BytesIO(content))
