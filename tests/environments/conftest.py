from pathlib import Path

import pytest

from runyard.environments.uv_environments import UvEnvironments
from tests.environments.wheelhouse import submitter_without_index


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def variables(tmp_path: Path, wheels: Path) -> dict[str, str]:
    return submitter_without_index(tmp_path, wheels)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


@pytest.fixture
def environments(root: Path, variables: dict[str, str]) -> UvEnvironments:
    return UvEnvironments(root, variables)
