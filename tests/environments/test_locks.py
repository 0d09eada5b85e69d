import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.lockfile import LockFile, this_platform
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.wheelhouse import add_wheel

DEMO = EnvironmentSpec(python="3.11", requirements=("demo",))


def _unheard(line: str) -> None:
    pass


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_lock_holds_versions_hashes_interpreter_and_platform(environments, wheels):
    add_wheel(wheels, "demo", "1.0", needs="inner")
    add_wheel(wheels, "inner", "2.0")
    lock = LockFile.parse(environments.ensure(DEMO, _unheard).lock)
    assert lock.versions == ("demo==1.0", "inner==2.0")
    for file in wheels.iterdir():
        assert f"--hash=sha256:{_sha256(file)}" in lock.packages
    assert lock.python.startswith("3.11.")
    assert (lock.implementation, lock.platform) == ("cpython", this_platform())


def test_a_lock_is_read_as_it_was_written():
    lock = LockFile(
        "demo==1.0 \\\n    --hash=sha256:ab\n", "3.11.4", "cpython", "linux x86_64", "sha256:12", ("horovod==1",)
    )
    assert LockFile.parse(lock.text()) == lock
    assert lock.versions == ("demo==1.0", "horovod==1")
    assert lock.foreign_lines == ()


def test_a_kept_lock_of_before_is_still_followed(environments, root, wheels):
    for version in ("1.0", "2.0"):
        add_wheel(wheels, "demo", version)
    kept = EnvironmentFolder(root, environment_key(DEMO)).lock
    kept.parent.mkdir(parents=True)
    kept.write_text("# python 3.11\ndemo==1.0\n")
    assert LockFile.parse(environments.ensure(DEMO, _unheard).lock).versions == ("demo==1.0",)


def test_facts_of_before_tell_of_their_python(environments, root, wheels):
    add_wheel(wheels, "demo", "1.0")
    environments.ensure(DEMO, _unheard)
    ready = EnvironmentFolder(root, environment_key(DEMO)).ready
    facts = json.loads(ready.read_bytes())
    del facts["image"]
    ready.write_text(json.dumps({**facts, "lock": "demo==1.0\n", "compiled": {"a": "horovod==0.16.1"}}))
    lock = LockFile.parse(environments.find(DEMO).lock)
    assert lock.versions == ("demo==1.0", "horovod==0.16.1")
    assert lock.python == facts["version"]


@pytest.mark.parametrize(
    "header", ["# python: 3.6.15\n", "# python: 3.11.1\n# platform: darwin arm64\n", "# python 3.6\n"]
)
def test_a_kept_lock_of_another_python_or_machine_is_left_alone(environments, root, wheels, header):
    for version in ("1.0", "2.0"):
        add_wheel(wheels, "demo", version)
    kept = EnvironmentFolder(root, environment_key(DEMO)).lock
    kept.parent.mkdir(parents=True)
    kept.write_text(f"{header}demo==1.0\n")
    assert LockFile.parse(environments.ensure(DEMO, _unheard).lock).versions == ("demo==2.0",)


def test_a_locked_spec_is_made_again_exactly(environments, root, wheels, variables, tmp_path):
    add_wheel(wheels, "demo", "1.0")
    first = environments.ensure(DEMO, _unheard)
    add_wheel(wheels, "demo", "2.0")
    elsewhere = UvEnvironments(tmp_path / "another home", variables)
    again = elsewhere.ensure(replace(DEMO, locked=first.lock), _unheard)
    assert again.lock == first.lock
    assert elsewhere.find(replace(DEMO, locked=first.lock)) == again
    assert LockFile.parse(elsewhere.ensure(DEMO, _unheard).lock).versions == ("demo==2.0",)


def test_a_locked_spec_takes_the_environment_that_has_just_that_lock(environments, root, wheels):
    add_wheel(wheels, "demo", "1.0")
    first = environments.ensure(DEMO, _unheard)
    assert environments.find(replace(DEMO, locked=first.lock)) == first
    other = first.lock.replace("demo==1.0", "demo==0.9")
    assert environments.find(replace(DEMO, locked=other)) is None


def test_a_locked_version_that_has_gone_is_not_replaced(environments, wheels):
    add_wheel(wheels, "demo", "2.0")
    spec = replace(DEMO, locked="# python: 3.11.1\ndemo==1.0\n")
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(spec, _unheard)
    assert failure.value.facts["cause"] == "no_such_version"
    assert "submit the definition anew" in failure.value.hint
    assert environments.find(spec) is None


def test_a_file_other_than_the_locked_one_is_never_installed(environments, root, wheels, variables, tmp_path):
    add_wheel(wheels, "demo", "1.0")
    first = environments.ensure(DEMO, _unheard)
    EnvironmentFolder(root, first.key).remove()
    add_wheel(wheels, "demo", "1.0", module="harm = True\n")
    for spec in (DEMO, replace(DEMO, locked=first.lock)):
        from_cache = environments.ensure(spec, _unheard)
        assert "harm" not in next((root / from_cache.key).rglob("demo.py")).read_text()
        EnvironmentFolder(root, from_cache.key).remove()
        without_cache = UvEnvironments(root, {**variables, "UV_CACHE_DIR": str(tmp_path / "empty")})
        with pytest.raises(EnvironmentFailed) as failure:
            without_cache.ensure(spec, _unheard)
        assert failure.value.facts["cause"] == "checksum", failure.value
        assert environments.find(spec) is None


def test_a_lock_for_a_python_that_is_not_here_says_so(environments):
    with pytest.raises(EnvironmentFailed, match=r"needs Python 3\.99"):
        environments.ensure(replace(DEMO, locked="# python: 3.99.1\n"), _unheard)


@pytest.mark.parametrize(
    "line",
    [
        "--index-url http://evil.example/simple",
        "-r /etc/passwd",
        "-e .",
        "demo>=1.0",
        "demo",
        "./demo",
        "demo==1.0 --config-settings=a=b",
        "demo @ $(touch /tmp/x)",
        "https://evil.example/demo.whl",
    ],
)
def test_a_lock_that_holds_anything_but_pinned_packages_is_refused(environments, line):
    with pytest.raises(EnvironmentFailed, match="which no lock of ours has"):
        environments.ensure(replace(DEMO, locked=f"# python: 3.11.1\ngood==1.0\n{line}\n"), _unheard)
