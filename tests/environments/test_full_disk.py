import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.folder import environment_key
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.wheelhouse import add_wheel

SPEC = EnvironmentSpec(requirements=("large",))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB. Mounting needs root, which CI has; elsewhere the tests say that they did not run."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"A small disk needs root: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _unheard(line: str) -> None:
    pass


def test_an_environment_that_does_not_fit_says_so_and_leaves_the_disk_as_it_was(small_disk, variables, wheels):
    add_wheel(wheels, "large", "1.0", module=f"text = {'x' * 3_000_000!r}\n")
    root = small_disk / "environments"
    environments = UvEnvironments(root, variables)
    with pytest.raises(EnvironmentFailed, match=r"disk filled up|No space left") as failure:
        environments.ensure(SPEC, _unheard)
    assert failure.value.facts["cause"] == FailureCause.DISK_FULL
    assert "Free space" in failure.value.hint
    assert environments.find(SPEC) is None
    assert not (root / environment_key(SPEC)).exists()
