"""What a machine that lost its agents and supervisors still has mounted when a service starts there again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.data.fuse import kernel
from runyard.server.lifecycle import start_service
from tests.conftest import end_home


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "precious").write_text("of the user")
    return folder


@pytest.fixture
def left_home(home: Path) -> Iterator[Path]:
    """A home whose mounts are taken away at the end, whatever happened."""
    yield home
    end_home(home)
    kernel.sweep(home / "mounts")


def test_a_starting_service_sweeps_the_mounts_of_attempts_that_are_no_more(left_home: Path, data: Path) -> None:
    kernel.bind(data, left_home / "mounts/gone.1/input", read_only=False)
    kernel.bind(data, left_home / "mounts/gone.2/deep/input", read_only=True)
    start_service(left_home, keep=True)
    assert kernel.mounts_below(left_home) == []
    assert list((left_home / "mounts").iterdir()) == []
    assert (data / "precious").read_text() == "of the user"


def test_it_touches_nothing_outside_of_its_own_mounts(left_home: Path, data: Path) -> None:
    elsewhere = left_home.parent / "mounts"
    kernel.bind(data, elsewhere / "gone.1", read_only=True)
    try:
        start_service(left_home, keep=True)
        assert kernel.mounts_below(elsewhere) == [elsewhere / "gone.1"]
    finally:
        kernel.sweep(elsewhere)
