"""The SDK's own tests, on every Python from 3.6 that this machine has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import interpreters

REPOSITORY = Path(__file__).resolve().parents[2]
SDK = REPOSITORY / "packages" / "sdk"
FOUND = {sys.version_info[:2]: Path(sys._base_executable), **interpreters()}


def _param(version: tuple[int, int]) -> object:
    """The Python of these tests is quick enough for `make test-sdk`; eight of them are not."""
    marks = [] if version == sys.version_info[:2] else [pytest.mark.slow]
    return pytest.param(version, marks=marks, id=".".join(map(str, version)))


each_interpreter = pytest.mark.parametrize("version", [_param(version) for version in FOUND])


def unit_tests(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {
        "PYTHONPATH": str(SDK / "src"),
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "RUNYARD_HOME": str(folder / "home"),
        # A file with a warning has no bytecode here, so it is compiled, and fails, each time. The bytecode of the
        # source folder may be of processes that only warned. Kept for the next session: compiling takes seconds each.
        "PYTHONPYCACHEPREFIX": str(REPOSITORY / ".cache" / "sdk-bytecode"),
        "PYTHONWARNINGS": "error::SyntaxWarning",
    }
    command = [python, "-m", "unittest", *words]
    return subprocess.run(command, cwd=SDK, env=variables, capture_output=True, text=True, timeout=300)


@each_interpreter
def test_the_sdk_holds_on(version: tuple[int, int], tmp_path: Path) -> None:
    done = unit_tests(FOUND[version], tmp_path, "discover", "-s", "tests", "-t", ".")
    assert done.returncode == 0, done.stderr[-4000:]
    assert "skipped" not in done.stderr


@pytest.mark.needs("git")
@each_interpreter
def test_the_sdk_reads_what_git_knows_on(version: tuple[int, int], tmp_path: Path) -> None:
    done = unit_tests(FOUND[version], tmp_path, "tests.ignored_by_git", "tests.facts_of_git")
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.needs("python3.6", "python3.7")
def test_the_oldest_interpreters_are_among_them() -> None:
    assert {(3, 6), (3, 7)} <= set(FOUND)
