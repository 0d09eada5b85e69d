import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.yard import Yard

FULL = os.environ.get("RUNYARD_FAULTS") == "full"
# It installs another version from the history, which not every checkout has.
collect_ignore = [] if FULL else ["test_versions.py"]


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether `make faults` asked for the full sizes; CI takes smaller ones."""
    return FULL


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    """A fresh home; every process that worked on it is ended afterwards."""
    monkeypatch.setenv("RUNYARD_HOME", str(tmp_path / "home"))
    yield from _opened(tmp_path)


@pytest.fixture(scope="module")
def shared_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """One home for all tests of a module, which must not disturb one another: that is what they test too."""
    root = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("RUNYARD_HOME", str(root / "home"))
        yield from _opened(root)


def _opened(root: Path) -> Iterator[Yard]:
    (root / "sources").mkdir()
    opened = Yard(root / "sources")
    try:
        yield opened
    finally:
        opened.close()
