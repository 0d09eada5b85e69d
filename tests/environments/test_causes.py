"""Every cause of the catalogue that packages and indexes can have, brought about for real."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.index_server import Index, serving
from tests.environments.wheelhouse import add_source, add_wheel
from tests.servers.certificates import make_certificate

pytestmark = pytest.mark.slow

DEMO = EnvironmentSpec(python="3.11", requirements=("demo",))
COMPILES = """
import subprocess
with open("demo.c", "w") as file:
    file.write("{source}")
subprocess.run(["{compiler}", "-shared", "-fPIC", "demo.c", "-o", "demo.so", {option!r}], check=True)
"""


def _unheard(line: str) -> None:
    pass


def _failure(root: Path, variables: Mapping[str, str], spec: EnvironmentSpec = DEMO) -> EnvironmentFailed:
    """Of building it, which must leave nothing that could pass for an environment."""
    environments = UvEnvironments(root, variables)
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(spec, _unheard)
    assert environments.find(spec) is None
    assert not EnvironmentFolder(root, environment_key(spec)).path.exists()
    assert failure.value.hint
    return failure.value


def _assert_said(failure: EnvironmentFailed, cause: str, words: str) -> None:
    assert failure.facts["cause"] == cause, failure
    assert words in failure.facts["said"]
    assert failure.facts["said"] in failure.problem


@pytest.fixture
def online(variables: dict[str, str]) -> dict[str, str]:
    """The submitter asks an index, and is not patient."""
    kept = {name: value for name, value in variables.items() if not name.startswith("PIP_")}
    return {**kept, "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "1", "PIP_CONFIG_FILE": "/dev/null"}


def test_a_package_that_is_nowhere(root, variables):
    failure = _failure(root, variables)
    _assert_said(failure, "no_such_package", "demo was not found")
    assert "'demo' in pip_packages" in failure.hint


def test_a_wheel_folder_that_is_nowhere(root, variables, tmp_path):
    failure = _failure(root, {**variables, "PIP_FIND_LINKS": str(tmp_path / "nothing")})
    _assert_said(failure, "network", "Failed to read `--find-links` directory")
    assert "PIP_FIND_LINKS" in failure.hint


def test_a_version_that_is_nowhere(root, variables, wheels):
    add_wheel(wheels, "demo", "1.0")
    failure = _failure(root, variables, replace(DEMO, requirements=("demo==9",)))
    _assert_said(failure, "no_such_version", "no version of demo==9")
    assert "'demo==9' in pip_packages" in failure.hint


def test_a_version_of_something_that_a_package_needs(root, variables, wheels):
    add_wheel(wheels, "demo", "1.0", needs="inner>=2")
    add_wheel(wheels, "inner", "1.0")
    failure = _failure(root, variables)
    _assert_said(failure, "no_such_version", "only inner==1.0 is available")
    assert "'inner' is needed by one of your packages (demo)" in failure.hint


def test_a_release_for_another_python(root, variables, wheels):
    add_wheel(wheels, "demo", "1.0", needs_python=">=3.99")
    failure = _failure(root, variables)
    _assert_said(failure, "not_for_this_python", "requires Python >=3.99")
    assert "'demo' needs Python >=3.99" in failure.hint


def test_wheels_for_another_python(root, variables, wheels):
    add_wheel(wheels, "demo", "1.0", tag="cp36-cp36m-manylinux2014_x86_64")
    failure = _failure(root, variables)
    _assert_said(failure, "not_for_this_python", "no wheels with a matching Python")


def test_wheels_for_another_architecture(root, variables, wheels):
    add_wheel(wheels, "demo", "1.0", tag="cp311-cp311-manylinux2014_s390x")
    failure = _failure(root, variables)
    _assert_said(failure, "architecture", "no wheels with a matching platform tag")
    assert "s390x" in failure.problem


def test_packages_that_do_not_go_together(root, variables, wheels):
    add_wheel(wheels, "demo", "1.0", needs="inner<2")
    add_wheel(wheels, "other", "1.0", needs="inner>=2")
    for version in ("1.0", "2.0"):
        add_wheel(wheels, "inner", version)
    failure = _failure(root, variables, replace(DEMO, requirements=("demo", "other")))
    _assert_said(failure, "conflict", "depend")


def test_a_compiler_that_is_missing(root, variables, wheels):
    add_source(wheels, "demo", "1.0", work=COMPILES.format(source="", compiler="no-such-gcc", option="-O1"))
    failure = _failure(root, variables)
    _assert_said(failure, "compiler_missing", "no-such-gcc")
    assert "no-such-gcc is not on this machine" in failure.hint


@pytest.mark.needs("compiler")
def test_a_header_that_is_missing(root, variables, wheels):
    work = COMPILES.format(source="#include <no/such/thing.h>", compiler="gcc", option="-O1")
    add_source(wheels, "demo", "1.0", work=work)
    failure = _failure(root, variables)
    _assert_said(failure, "header_missing", "fatal error: no/such/thing.h")
    assert "that has no/such/thing.h" in failure.hint


@pytest.mark.needs("compiler")
def test_a_library_that_is_missing(root, variables, wheels):
    add_source(wheels, "demo", "1.0", work=COMPILES.format(source="", compiler="gcc", option="-lnosuchlibrary"))
    _assert_said(_failure(root, variables), "header_missing", "cannot find -lnosuchlibrary")


def test_a_source_package_that_cannot_be_built(root, variables, wheels):
    add_source(wheels, "demo", "1.0", work="raise RuntimeError('of its own making')")
    failure = _failure(root, variables)
    _assert_said(failure, "build_failed", "Failed to build `demo==1.0`")
    assert "of its own making" in failure.problem


def test_a_build_that_is_killed(root, variables, wheels):
    add_source(wheels, "demo", "1.0", work="import os; os.kill(os.getpid(), 9)")
    failure = _failure(root, variables)
    _assert_said(failure, "killed", "demo==1.0")
    assert "SIGKILL" in failure.problem


@pytest.mark.parametrize("wrong", [401, 403])
def test_an_index_that_refuses_the_credentials(root, online, wheels, wrong):
    with serving(Index(wheels, fails=wrong)) as index:
        failure = _failure(root, {**online, "PIP_INDEX_URL": index.address})
    _assert_said(failure, "wrong_credentials", str(wrong))


def test_a_wrong_password_is_told_and_not_shown(root, online, wheels):
    with serving(Index(wheels, login="me:right")) as index:
        address = index.address.replace("://", "://me:s3cret@")
        failure = _failure(root, {**online, "PIP_INDEX_URL": address})
    assert failure.facts["cause"] == "wrong_credentials"
    assert "s3cret" not in str(failure) + str(failure.facts)


@pytest.mark.parametrize(
    ("fails", "words"),
    [(500, "500 Internal Server Error"), ("garbage", "unexpected JSON"), ("cut", "error decoding response body")],
)
def test_an_index_that_answers_with_nothing_of_use(root, online, wheels, fails, words):
    with serving(Index(wheels, fails=fails)) as index:
        failure = _failure(root, {**online, "PIP_INDEX_URL": index.address})
    _assert_said(failure, "network", words)


def test_an_index_that_never_answers(root, online, wheels):
    with serving(Index(wheels, fails="silent")) as index:
        failure = _failure(root, {**online, "PIP_INDEX_URL": index.address})
    _assert_said(failure, "network", "error sending request")


def test_an_index_that_is_not_there(root, online, wheels):
    with serving(Index(wheels)) as index:
        address = index.address
    failure = _failure(root, {**online, "PIP_INDEX_URL": address})
    _assert_said(failure, "network", "error sending request")


def test_an_index_whose_certificate_nobody_knows(root, online, wheels, tmp_path):
    with serving(Index(wheels), make_certificate(tmp_path / "tls")) as index:
        failure = _failure(root, {**online, "PIP_INDEX_URL": index.address})
    _assert_said(failure, "certificate", "invalid peer certificate")
    assert "ca_bundle" in failure.hint


def test_a_file_that_is_other_than_the_index_says(root, online, wheels):
    add_wheel(wheels, "demo", "1.0")
    with serving(Index(wheels, wrong_hashes=True)) as index:
        failure = _failure(root, {**online, "PIP_INDEX_URL": index.address})
    _assert_said(failure, "checksum", "Hash mismatch for `demo==1.0`")


def test_a_damaged_wheel(root, online, wheels):
    (wheels / "demo-1.0-py3-none-any.whl").write_bytes(b"PK not a wheel")
    with serving(Index(wheels)) as index:
        failure = _failure(root, {**online, "PIP_INDEX_URL": index.address})
    assert failure.facts["cause"] == "checksum", failure


def test_what_is_in_no_cache_of_an_offline_workspace(root, online, wheels):
    with serving(Index(wheels)) as index:
        settings = PackageSettings(index_url=index.address, offline=True)
        with pytest.raises(EnvironmentFailed) as failure:
            UvEnvironments(root, online, lambda: settings).ensure(DEMO, _unheard)
        assert index.asked == []
    _assert_said(failure.value, "offline", "cache")
    assert "offline=false" in failure.value.hint


def test_an_interpreter_of_the_users_that_is_missing(root, variables):
    spec = EnvironmentSpec(python="/nowhere/python", user_managed=True)
    assert _failure_of_user_managed(root, variables, spec).facts["cause"] == "no_python"


def _failure_of_user_managed(root: Path, variables: Mapping[str, str], spec: EnvironmentSpec) -> EnvironmentFailed:
    with pytest.raises(EnvironmentFailed) as failure:
        UvEnvironments(root, variables).ensure(spec, _unheard)
    return failure.value
