from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runyard.core.settings import Settings
from runyard.storage.sql.stores import Stores, open_stores
from tests.runs.sweep_parts import SweepYard, opened


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[SweepYard]:
    yield from opened(tmp_path)


@pytest.fixture
def stores(service: Mapping[str, str]) -> Iterator[Stores]:
    """Those of the service, to write what no route writes."""
    opened = open_stores(Settings(Path(service["home"])).store_url)
    yield opened
    opened.close()
