"""What users write into lists of packages, from the definition to a real uv."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import EnvironmentFailed, InvalidArgument
from runyard.core.records.environments import PackageSettings
from runyard.environments.cache import prune
from runyard.environments.lockfile import LockFile
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.planning.packages import PackageRequests, add_pip
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.index_server import Index, serving
from tests.environments.wheelhouse import add_wheel

Build = Callable[..., tuple[str, ...]]


@pytest.fixture
def build(root: Path, tmp_path: Path) -> Build:
    """Builds what a list of pip packages says; answers with the versions."""
    nobody = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_HTTP_RETRIES": "0",
    }

    def built(
        pip: Sequence[str], *, settings: PackageSettings | None = None, variables: dict[str, str] | None = None
    ) -> tuple[str, ...]:
        dependencies = ["python=3.11", {"pip": list(pip)}]
        definition = {"environment": {"python": {"condaDependencies": {"dependencies": dependencies}}}}
        spec = plan_environment(RunDefinition.parse(definition), gpu_present=False)
        environments = UvEnvironments(root, {**nobody, **(variables or {})}, lambda: settings or PackageSettings())
        return LockFile.parse(environments.ensure(spec, lambda line: None).lock).versions

    return built


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A folder with another version."""
    add_wheel(tmp_path / "other", "demo", "2.0")
    return tmp_path / "other"


@pytest.fixture(autouse=True)
def demo(wheels: Path) -> None:
    add_wheel(wheels, "demo", "1.0")


def test_an_index_in_the_list_goes_before_that_of_the_submitter(build, wheels, other):
    with serving(Index(wheels)) as usual, serving(Index(other)) as named:
        pip = [f"--index-url {named.address}", "demo"]
        assert build(pip, variables={"PIP_INDEX_URL": usual.address}) == ("demo==2.0",)


def test_the_index_of_the_workspace_goes_before_one_in_the_list(build, wheels, other):
    with serving(Index(wheels)) as ours, serving(Index(other)) as named:
        pip = [f"--index-url={named.address}", "demo"]
        assert build(pip, settings=PackageSettings(index_url=ours.address)) == ("demo==1.0",)
        assert named.asked == []


def test_a_wheel_folder_in_the_list_is_looked_at(build, wheels, other):
    with serving(Index(wheels)) as usual:
        assert build([f"--find-links {other}", "demo"], variables={"PIP_INDEX_URL": usual.address}) == ("demo==2.0",)


def test_lists_with_other_indexes_make_other_environments(build, wheels, other):
    with serving(Index(wheels)) as first, serving(Index(other)) as second:
        assert build([f"--index-url {first.address}", "demo"]) == ("demo==1.0",)
        assert build([f"--index-url {second.address}", "demo"]) == ("demo==2.0",)


def test_an_address_of_a_wheel_is_taken_and_locked_with_its_hash(build, wheels):
    with serving(Index(wheels)) as index:
        address = f"{index.host}/files/demo-1.0-py3-none-any.whl"
        assert build([f"demo @ {address}"]) == (f"demo @ {address}",)


def test_the_password_of_an_address_is_in_no_lock_and_serves_again(build, wheels, root):
    with serving(Index(wheels, login="me:s3cret")) as index:
        address = f"{index.host}/files/demo-1.0-py3-none-any.whl"
        pip = [f"demo @ {address.replace('://', '://me:s3cret@')}"]
        locked = (f"demo @ {address.replace('://', '://me:****@')}",)
        assert build(pip) == locked
        assert [file for file in root.rglob("*") if file.is_file() and b"s3cret" in file.read_bytes()] == []
        prune(root, now=datetime.now(UTC) + timedelta(days=1))
        assert build(pip) == locked


def test_a_private_wheel_of_this_machine_is_taken(build, other):
    wheel = (other / "demo-2.0-py3-none-any.whl").as_uri()
    assert build([wheel]) == (f"demo @ {wheel}",)


@pytest.mark.parametrize(
    "line", ["file:///nowhere/demo-2.0-py3-none-any.whl", "demo @ {host}/files/../nothing/demo-3.0-py3-none-any.whl"]
)
def test_an_address_where_nothing_is_says_so(build, wheels, line):
    with serving(Index(wheels)) as index, pytest.raises(EnvironmentFailed) as failure:
        build([line.format(host=index.host)])
    assert failure.value.facts["cause"] == "no_such_package"
    assert "correct it in pip_packages" in failure.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "demo\n--index-url http://evil.example",
        "demo\r--index-url http://evil.example",
        "demo\0",
        "demo; rm -rf /",
        "demo; $(touch {marker})",
        "$(touch {marker})",
        "`touch {marker}`",
        "demo && touch {marker}",
        "demo==1.0 | touch {marker}",
        "'demo'; touch {marker}",
        "-r /etc/passwd",
        "-c /etc/passwd",
        "-e /tmp",
        "--requirement=/etc/passwd",
        "--config-settings=a=b",
        "--target=/tmp/elsewhere",
        "--prefix /tmp/elsewhere",
        "--no-index demo",
        "--index-url http://a.example --target /tmp",
        "../../etc/passwd",
        "/etc/passwd",
        "./demo",
        "demo @ $(touch {marker})",
        "demo[$(touch {marker})]",
        "demo==$(touch {marker})",
    ],
)
def test_what_is_no_requirement_is_refused_and_never_run(build, tmp_path, line):
    marker = tmp_path / "harm"
    with pytest.raises((InvalidArgument, EnvironmentFailed)) as refused:
        build([line.format(marker=marker)])
    assert not marker.exists()
    assert refused.value.hint


@pytest.mark.parametrize("marker", ["import os", "pythonversion < '3'", "=" * 5000 + "!", "os_name = 1"])
def test_what_is_no_marker_is_refused_before_anything_is_built(marker):
    with pytest.raises(InvalidArgument, match="pip_packages holds"):
        add_pip(PackageRequests(), [f"demo; {marker}"])


@pytest.mark.parametrize(
    "marker",
    [
        "python_version < '3.8'",
        'sys_platform == "linux" and (platform_machine != \'arm64\' or extra == "x")',
        "platform_python_implementation not in 'PyPy Jython'",
        "python_full_version >= '3.6.2' --hash=sha256:00ff",
    ],
)
def test_a_marker_is_left_as_it_is(marker):
    wishes = PackageRequests()
    add_pip(wishes, [f"demo==1.0; {marker}"])
    assert wishes.requirements == [f"demo==1.0; {marker}"]


def test_ten_thousand_packages_are_refused_by_the_resolver_and_not_by_a_crash(build, wheels):
    with pytest.raises(EnvironmentFailed) as failure:
        build([f"absent-{number}" for number in range(10_000)], variables={"PIP_NO_INDEX": "1"})
    assert failure.value.facts["cause"] == "no_such_package"
