"""The same by conda itself: the last release that the Python package index has, on a Python of its time."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from uv import find_uv_bin

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.launch_plan import CondaSpec, EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.interpreters import discover_interpreters
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.conda_tool.channel import MINOR, CondaChannel
from tests.environments.conda_tool.installing import install_conda
from tests.environments.conda_tool.served import served
from tests.environments.wheelhouse import add_wheel, submitter_without_index

pytestmark = pytest.mark.images


@pytest.fixture(scope="module")
def conda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conda")
    found = discover_interpreters(folder / "known.json", os.environ)
    old = next((interpreter.path for interpreter in found if interpreter.minor == "3.6"), "")
    assert old, "the conda of the index runs on Python 3.6, as the old frameworks do; this machine has none"
    return install_conda(folder, old, os.fspath(find_uv_bin()))


@pytest.fixture
def channel(tmp_path: Path) -> CondaChannel:
    channel = CondaChannel(tmp_path / "channels/ours")
    channel.add_python()
    channel.add("rlang", "4.1", {"bin/R": "#!/bin/sh\necho R of conda\n"})
    channel.add_module("demo", "1.0", build="py_0")
    channel.add_module("demo", "2.0", needs=["rlang >=4"], build="py_0")
    return channel


@pytest.fixture
def variables(tmp_path: Path, conda: Path, channel: CondaChannel) -> dict[str, str]:
    variables = submitter_without_index(tmp_path, tmp_path / "wheels")
    home = Path(variables["HOME"])
    home.mkdir()
    # This old release looks into its default channels even where it is told not to.
    (home / ".condarc").write_text(json.dumps({"default_channels": [channel.address]}))
    return {**variables, "PATH": f"{conda.parent}:{os.defpath}", "CONDA_PKGS_DIRS": str(tmp_path / "pkgs")}


def _spec(channel: str, *packages: str, pip: tuple[str, ...] = ()) -> EnvironmentSpec:
    return EnvironmentSpec(python=MINOR, requirements=packages, conda=CondaSpec(packages, (channel,), pip))


def _told(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_conda_itself_solves_installs_and_installs_again_from_the_lock(tmp_path, variables, channel):
    add_wheel(tmp_path / "wheels", "extra", "3.0", needs="demo")
    environments = UvEnvironments(tmp_path / "environments", variables)
    spec = _spec(channel.address, "demo >=1.0", pip=("extra",))
    built = environments.ensure(spec, print)
    assert _told(built.python, "import demo, extra; print(demo.version, extra.version)") == "2.0 3.0"
    assert subprocess.check_output([built.python.parent / "R"], text=True) == "R of conda\n"
    listed = subprocess.check_output(
        [variables["PATH"].partition(":")[0] + "/conda", "list", "-p", built.python.parents[1], "--explicit", "--md5"],
        env=variables,
        text=True,
    )
    theirs = [line for line in listed.splitlines() if line.startswith("file:")]
    assert sorted(theirs) == sorted(line for line in built.lock.splitlines() if line.startswith("file:"))
    channel.add_module("demo", "3.0", build="py_0")
    EnvironmentFolder(tmp_path / "environments", built.key).remove()
    assert environments.ensure(spec, print).lock == built.lock


@pytest.mark.parametrize(
    ("packages", "cause"),
    [(("nosuch",), FailureCause.NO_SUCH_PACKAGE), (("modern", "rlang=3.0"), FailureCause.CONFLICT)],
)
def test_the_words_of_conda_itself_are_understood(tmp_path, variables, channel, packages, cause):
    channel.add("rlang", "3.0", {"bin/R": "#!/bin/sh\n"})
    channel.add_module("modern", "1.0", needs=["rlang >=4"])
    with pytest.raises(EnvironmentFailed) as failure:
        UvEnvironments(tmp_path / "environments", variables).ensure(_spec(channel.address, *packages), print)
    assert failure.value.facts["cause"] == cause
    assert failure.value.facts["said"]


def test_conda_itself_reads_the_workspaces_address_of_a_channel(tmp_path, variables, channel):
    with served(tmp_path / "channels", "reader:s3cret") as address:
        settings = PackageSettings(conda_channels={"conda-forge": f"http://reader:s3cret@{address}/ours"})
        environments = UvEnvironments(tmp_path / "environments", variables, lambda: settings)
        built = environments.ensure(_spec("conda-forge", "demo=1.0"), print)
    assert _told(built.python, "import demo; print(demo.version)") == "1.0"
    assert f"http://{address}/ours/linux-64/demo-1.0-py_0.tar.bz2#" in built.lock
    assert subprocess.run(["grep", "-rlI", "s3cret", str(tmp_path)], capture_output=True, text=True).stdout == ""
