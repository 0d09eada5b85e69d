import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.launch_plan import CondaSpec, EnvironmentSpec
from runyard.environments.conda.channels import Channels, without_login
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.package_sources import PackageSources
from runyard.environments.uv_environments import PrebuiltEnvironment, UvEnvironments
from tests.environments.conda_tool.channel import MINOR, CondaChannel
from tests.environments.conda_tool.installing import install_micromamba
from tests.environments.conda_tool.served import served
from tests.environments.wheelhouse import add_wheel

pytestmark = pytest.mark.slow


@pytest.fixture
def channel(tmp_path: Path) -> CondaChannel:
    channel = CondaChannel(tmp_path / "channels/ours")
    channel.add_python()
    channel.add("rlang", "4.1", {"bin/R": "#!/bin/sh\necho R of conda\n"})
    channel.add_module("demo", "1.0")
    channel.add_module("demo", "2.0", needs=["rlang"])
    return channel


@pytest.fixture
def with_conda(tmp_path: Path, variables: dict[str, str]) -> dict[str, str]:
    install_micromamba(tmp_path / "tools")
    variables["PATH"] = f"{tmp_path / 'tools'}:{variables['PATH']}"
    return variables


@pytest.fixture
def environments(root: Path, with_conda: dict[str, str]) -> UvEnvironments:
    return UvEnvironments(root, with_conda)


def _spec(
    channel: CondaChannel | str, *packages: str, pip: tuple[str, ...] = (), python: str = MINOR
) -> EnvironmentSpec:
    address = channel if isinstance(channel, str) else channel.address
    return EnvironmentSpec(
        python=python,
        requirements=(*packages, *pip),
        conda=CondaSpec(packages=packages, channels=(address,), requirements=pip),
    )


def _told(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_conda_solves_what_conda_packages_need_and_installs_it(environments, channel):
    log: list[str] = []
    built = environments.ensure(_spec(channel, "demo"), log.append)
    assert _told(built.python, "import demo, sys; print(demo.version, sys.prefix)") == f"2.0 {built.python.parents[1]}"
    assert subprocess.check_output([built.python.parent / "R"], text=True) == "R of conda\n"
    assert any("solved by micromamba" in line for line in log)
    assert not any("Python package index" in line for line in log)


def test_what_is_made_by_conda_is_found_again_without_it(environments, channel, with_conda, root):
    built = environments.ensure(_spec(channel, "demo"), print)
    without = {**with_conda, "PATH": os.defpath}
    assert UvEnvironments(root, without).find(_spec(channel, "demo")) == built


def test_pip_adds_what_conda_has_not_and_leaves_what_it_has(environments, channel, wheels):
    add_wheel(wheels, "demo", "9.0")
    add_wheel(wheels, "extra", "3.0", needs="demo>=1")
    built = environments.ensure(_spec(channel, "demo=1", pip=("extra",)), print)
    assert _told(built.python, "import demo, extra; print(demo.version, extra.version)") == "1.0 3.0"
    where = subprocess.check_output([built.python.parent / "extra-where"], text=True)
    assert where.strip() == str(built.python.parents[1])


def test_what_pip_asks_for_more_strictly_replaces_what_conda_installed(environments, channel, wheels):
    add_wheel(wheels, "demo", "9.0")
    built = environments.ensure(_spec(channel, "demo=1", pip=("demo>=9",)), print)
    assert _told(built.python, "import demo; print(demo.version)") == "9.0"


def test_the_lock_names_every_file_with_its_checksum_what_others_need_first(environments, channel, wheels):
    add_wheel(wheels, "extra", "3.0")
    lock = environments.ensure(_spec(channel, "demo", pip=("extra",)), print).lock.splitlines()
    explicit = lock[lock.index("@EXPLICIT") + 1 :]
    names = [line.rpartition("/")[2].split("-")[0] for line in explicit if "#" in line]
    assert sorted(names) == ["demo", "python", "rlang"]
    assert names[-1] == "demo"
    assert all(line.startswith(channel.address) and len(line.partition("#")[2]) == 32 for line in explicit[:3])
    assert any(line.startswith("extra==3.0") for line in explicit)


def test_the_same_packages_come_back_from_the_lock_although_newer_ones_are_there(environments, channel, root, wheels):
    add_wheel(wheels, "extra", "3.0")
    spec = _spec(channel, "demo", pip=("extra",))
    first = environments.ensure(spec, print)
    channel.add_module("demo", "3.0")
    add_wheel(wheels, "extra", "4.0")
    EnvironmentFolder(root, first.key).remove()
    again = environments.ensure(spec, print)
    assert again.lock == first.lock
    assert _told(again.python, "import demo, extra; print(demo.version, extra.version)") == "2.0 3.0"


def test_a_rerun_of_a_lock_whose_file_has_changed_is_refused(environments, channel, root):
    spec = _spec(channel, "demo=1")
    first = environments.ensure(spec, print)
    EnvironmentFolder(root, first.key).remove()
    channel.add_module("demo", "1.0", needs=["rlang"])
    locked = EnvironmentSpec(**{**vars(spec), "locked": first.lock})
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(locked, print)
    assert failure.value.facts["cause"] == FailureCause.CHECKSUM
    assert not EnvironmentFolder(root, environment_key(locked)).path.exists()


def test_packages_that_are_gone_from_the_channel_are_solved_anew(environments, channel, root, tmp_path):
    spec = _spec(channel, "demo")
    EnvironmentFolder(root, environments.ensure(spec, print).key).remove()
    replaced = CondaChannel(channel.folder)
    replaced.add_python()
    replaced.add_module("demo", "5.0")
    log: list[str] = []
    built = environments.ensure(spec, log.append)
    assert _told(built.python, "import demo; print(demo.version)") == "5.0"
    assert any("solving anew" in line for line in log)


def test_another_machine_without_conda_says_so(environments, channel, with_conda, tmp_path):
    spec = _spec(channel, "demo")
    lock = environments.ensure(spec, print).lock
    other = UvEnvironments(tmp_path / "other", {**with_conda, "PATH": os.defpath})
    with pytest.raises(EnvironmentFailed, match="no conda is here") as failure:
        other.ensure(spec, print, PrebuiltEnvironment(MINOR, lock, lambda key, into: None))
    assert failure.value.facts["cause"] == FailureCause.CONDA_FAILED


def test_another_machine_with_conda_makes_the_same(environments, channel, with_conda, tmp_path):
    spec = _spec(channel, "demo")
    built = environments.ensure(spec, print)
    channel.add_module("demo", "3.0")
    other = UvEnvironments(tmp_path / "other", with_conda)
    assert other.ensure(spec, print, PrebuiltEnvironment(MINOR, built.lock, lambda key, into: None)).lock == built.lock


def test_the_nearest_patch_release_of_python_is_taken_and_said(environments, channel):
    log: list[str] = []
    environments.ensure(_spec(channel, "demo=1", python=f"{MINOR}.77"), log.append)
    assert f"With Python {MINOR}.77 that cannot be had; trying {MINOR}." in log


@pytest.mark.parametrize(
    ("packages", "cause", "blamed"),
    [
        (("nosuch", "demo"), FailureCause.NO_SUCH_PACKAGE, ["nosuch"]),
        (("demo=2", "rlang<4"), FailureCause.NO_SUCH_PACKAGE, ["rlang<4"]),
    ],
)
def test_a_package_that_no_channel_has_is_named(environments, channel, packages, cause, blamed):
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(_spec(channel, *packages), print)
    assert (failure.value.facts["cause"], failure.value.facts["packages"]) == (cause, blamed)
    assert blamed[0].partition("<")[0] in failure.value.facts["said"]


def test_packages_that_cannot_be_together_are_a_conflict(environments, channel):
    channel.add("rlang", "3.0", {"bin/R": "#!/bin/sh\n"})
    channel.add_module("modern", "1.0", needs=["rlang >=4"])
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(_spec(channel, "modern", "rlang=3"), print)
    assert failure.value.facts["cause"] == FailureCause.CONFLICT


def test_a_channel_that_does_not_answer_is_the_network(environments):
    with served(Path("/nonexistent")) as address:
        pass
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(_spec(f"http://{address}/ours", "demo"), print)
    assert failure.value.facts["cause"] == FailureCause.NETWORK


def test_the_workspaces_address_of_a_channel_is_taken_and_its_password_shown_to_nobody(
    root, with_conda, channel, tmp_path
):
    log: list[str] = []
    with served(tmp_path / "channels", "reader:s3cret") as address:
        settings = PackageSettings(conda_channels={"conda-forge": f"http://reader:s3cret@{address}/ours"})
        environments = UvEnvironments(root, with_conda, lambda: settings)
        spec = _spec("conda-forge", "demo=1", "conda-forge::rlang")
        built = environments.ensure(spec, log.append)
        EnvironmentFolder(root, built.key).remove()
        again = environments.ensure(spec, log.append)
    assert again.lock == built.lock
    assert "s3cret" not in built.lock + "".join(log)
    assert subprocess.run(["grep", "-rlI", "s3cret", str(tmp_path)], capture_output=True, text=True).stdout == ""


def test_the_password_of_a_channels_own_address_is_put_back_for_the_build(root, with_conda, channel, tmp_path):
    with served(tmp_path / "channels", "reader:s3cret") as address:
        marked, told = f"http://reader:****0123@{address}/ours", f"http://reader:s3cret@{address}/ours"
        environments = UvEnvironments(root, with_conda, addresses=lambda: {marked: told})
        built = environments.ensure(_spec(marked, "demo=1"), print)
    assert "s3cret" not in built.lock


def test_a_token_in_a_channels_path_is_a_login_that_locks_do_not_hold():
    settings = PackageSettings(conda_channels={"ours": "https://conda.example/t/s3cret/ours"})
    channels = Channels.of(CondaSpec(packages=("demo",), channels=("ours",)), PackageSources({}, settings))
    assert channels.has_logins
    package = "https://conda.example/t/s3cret/ours/noarch/demo-1.0-0.conda"
    locked = without_login(package)
    assert locked == "https://conda.example/ours/noarch/demo-1.0-0.conda"
    assert channels.with_login(locked) == package


def test_a_channel_that_refuses_the_password_is_told_apart(root, with_conda, channel, tmp_path):
    with served(tmp_path / "channels", "reader:s3cret") as address:
        settings = PackageSettings(conda_channels={"conda-forge": f"http://reader:wr0ng@{address}/ours"})
        with pytest.raises(EnvironmentFailed) as failure:
            UvEnvironments(root, with_conda, lambda: settings).ensure(_spec("conda-forge", "demo"), print)
    assert failure.value.facts["cause"] == FailureCause.WRONG_CREDENTIALS
    assert "wr0ng" not in str(failure.value)


def test_an_offline_workspace_says_that_it_is(root, with_conda, channel):
    with pytest.raises(EnvironmentFailed) as failure:
        UvEnvironments(root, with_conda, lambda: PackageSettings(offline=True)).ensure(_spec(channel, "demo"), print)
    assert failure.value.facts["cause"] == FailureCause.OFFLINE


def test_a_tool_that_leaves_a_package_out_without_a_word_is_found_out(environments, channel, tmp_path):
    tool = tmp_path / "tools/micromamba"
    tool.rename(tmp_path / "tools/whole")
    tool.write_text(f'#!/bin/sh\nset -- $(echo "$@" | sed "s/ rlang//")\nexec {tmp_path}/tools/whole "$@"\n')
    tool.chmod(0o755)
    with pytest.raises(EnvironmentFailed, match="has not installed 'rlang'"):
        environments.ensure(_spec(channel, "demo=1", "rlang"), print)


def test_a_failed_build_leaves_nothing(environments, channel, root):
    spec = _spec(channel, "demo", pip=("nosuch",))
    with pytest.raises(EnvironmentFailed):
        environments.ensure(spec, print)
    folder = EnvironmentFolder(root, environment_key(spec))
    assert not folder.path.exists()
    assert environments.find(spec) is None


def test_half_of_an_environment_is_not_taken_for_whole(environments, channel, root):
    spec = _spec(channel, "demo")
    left = EnvironmentFolder(root, environment_key(spec)).path
    (left / "conda-meta").mkdir(parents=True)
    (left / "bin").mkdir()
    (left / "bin/python").symlink_to(sys.executable)
    built = environments.ensure(spec, print)
    assert _told(built.python, "import demo; print(demo.version)") == "2.0"


def test_a_tool_that_is_killed_is_told(environments, channel, tmp_path):
    (tmp_path / "tools/micromamba").write_text(f"#!/bin/sh\nkill -{signal.SIGKILL} $$\n")
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(_spec(channel, "demo"), print)
    assert failure.value.facts["cause"] == FailureCause.KILLED


def test_conda_is_not_asked_where_the_workspace_says_never(root, with_conda, channel, wheels):
    add_wheel(wheels, "demo", "7.0")
    log: list[str] = []
    environments = UvEnvironments(root, with_conda, lambda: PackageSettings(conda="never"))
    built = environments.ensure(_spec(channel, "demo"), log.append)
    assert _told(built.python, "import demo; print(demo.version)") == "7.0"
    assert "conda package 'demo' is installed from the Python package index as 'demo'." in log
