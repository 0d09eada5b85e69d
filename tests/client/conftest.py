from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.scripted_service import ScriptedService, scripted


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ScriptedService]:
    with scripted(tmp_path / "home") as made:
        yield made
