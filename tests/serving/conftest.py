from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.hosting import Hosting


@pytest.fixture
def hosting(home: Path) -> Iterator[Hosting]:
    """A home of its own; its web services are removed at the end, and its gateway ends with the home."""
    made = Hosting(home)
    yield made
    made.close()
