"""Builders of environments that are killed at any step, that find the disk full, or whose packages shout."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.wheelhouse import add_source, add_wheel, submitter_without_index
from tests.faults.conftest import FULL

pytestmark = pytest.mark.slow

SPEC = EnvironmentSpec(requirements=("demo",))
MEGABYTES = 1000 if FULL else 40
STEPS = range(1, 400) if FULL else range(5, 400, 14)
SIZES = [f"{size}k" for size in (range(16, 250, 8) if FULL else (16, 96, 192, 216))]
# Dies just before its step of that number: a file opened to be written, a folder, a link, a rename, a program started.
KILLED_AT_STEP = """
import json, os, signal, sys
from pathlib import Path
from runyard.environments.uv_environments import UvEnvironments
from runyard.core.records.launch_plan import EnvironmentSpec

root, variables, last = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
steps = 0
CHANGES = ("os.mkdir", "os.symlink", "os.rename", "os.remove", "os.rmdir", "os.utime", "subprocess.Popen")

def count(event, arguments):
    global steps
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if writes or event in CHANGES:
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

environments = UvEnvironments(root, variables)
sys.addaudithook(count)
environments.ensure(EnvironmentSpec(requirements=("demo",)), lambda line: None)
"""


def _unheard(line: str) -> None:
    pass


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    variables = submitter_without_index(tmp_path, tmp_path / "wheels")
    add_wheel(tmp_path / "wheels", "demo", "1.0", needs="inner")
    add_wheel(tmp_path / "wheels", "inner", "1.0", module=f"text = {'x' * 200_000!r}\n")
    return variables


def _assert_whole(environments: UvEnvironments) -> None:
    """What is found can be used; what is not can be built."""
    built = environments.find(SPEC) or environments.ensure(SPEC, _unheard)
    asked = [str(built.python), "-c", "import demo, inner; print(demo.version, len(inner.text))"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "1.0 200000\n"


def test_a_builder_killed_at_any_step_leaves_nothing_that_is_taken_for_whole(tmp_path, variables):
    deaths = 0
    for step in STEPS:
        root = tmp_path / f"at-{step}"
        command = [sys.executable, "-c", KILLED_AT_STEP, str(root), json.dumps(variables), str(step)]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        deaths += 1
        _assert_whole(UvEnvironments(root, variables))
    assert deaths >= 3
    assert ended.returncode == 0, "the last step was never reached"


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    options = f"size={request.param}"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, text=True)
    if made.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"A small disk needs root: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("small_disk", SIZES, indirect=True)
def test_a_disk_that_fills_at_any_point_is_told_and_nothing_half_is_found(small_disk, variables):
    UvEnvironments(small_disk.parent / "roomy", variables).ensure(SPEC, _unheard)  # all is in uv's cache
    environments = UvEnvironments(small_disk / "environments", variables)
    with pytest.raises(EnvironmentFailed) as failure:
        environments.ensure(SPEC, _unheard)
    assert failure.value.facts["cause"] == FailureCause.DISK_FULL, failure.value
    assert environments.find(SPEC) is None
    assert not EnvironmentFolder(small_disk / "environments", environment_key(SPEC)).path.exists()


def test_a_build_that_prints_without_end_fills_neither_the_log_nor_the_error(tmp_path, variables):
    shout = f"import sys\nfor _ in range({MEGABYTES}):\n    sys.stdout.write(('x' * 999 + '\\n') * 1000)\n"
    add_source(tmp_path / "wheels", "demo", "2.0", work=f"{shout}raise RuntimeError('at its end')")
    heard: list[str] = []
    with pytest.raises(EnvironmentFailed) as failure:
        UvEnvironments(tmp_path / "environments", variables).ensure(SPEC, heard.append)
    assert failure.value.facts["cause"] == FailureCause.BUILD_FAILED
    assert "RuntimeError: at its end" in failure.value.problem
    assert len(str(failure.value)) < 100_000
    assert sum(map(len, heard)) < 9 * 2**20
    assert any("the rest is left out" in line for line in heard)


def test_a_line_without_end_is_cut(tmp_path, variables):
    shout = f"import sys\nfor _ in range({MEGABYTES}):\n    sys.stdout.write('x' * 1_000_000)\n"
    add_source(tmp_path / "wheels", "demo", "2.0", work=f"{shout}raise RuntimeError('at its end')")
    heard: list[str] = []
    with pytest.raises(EnvironmentFailed) as failure:
        UvEnvironments(tmp_path / "environments", variables).ensure(SPEC, heard.append)
    assert failure.value.facts["cause"] == FailureCause.BUILD_FAILED
    assert max(map(len, heard)) <= 4096
