from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.fixtures import azurite, azurite_access, s3_access, s3_server
from tests.service.sweep_parts import SweepYard, opened

__all__ = ["azurite", "azurite_access", "s3_access", "s3_server", "yard"]


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[SweepYard]:
    yield from opened(tmp_path)
