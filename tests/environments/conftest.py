import os
from pathlib import Path

import pytest

from runyard.environments.uv import UvEnvironments


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def variables(tmp_path: Path, wheels: Path) -> dict[str, str]:
    """A submitter whose packages come from the folder `wheels` alone."""
    wheels.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "nobody"),
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


@pytest.fixture
def environments(root: Path, variables: dict[str, str]) -> UvEnvironments:
    return UvEnvironments(root, variables)
