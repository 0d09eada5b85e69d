import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.records.data import SourceFile
from runyard.data.fuse import ReadOnlyMount, kernel
from tests.data.mounting.attempt_mounts import AttemptMounts

pytestmark = pytest.mark.slow


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptMounts]:
    made = AttemptMounts(tmp_path)
    yield made
    made.close()
    made.ended()
    assert kernel.mounts_below(tmp_path) == []


def test_a_folder_of_very_many_files_is_listed_and_read(attempt: AttemptMounts, full: bool) -> None:
    count = 100_000 if full else 20_000
    (attempt.stored / "one").write_bytes(b"content")
    files = [SourceFile(f"many/{number:06}.jpg", "far", "one", 7) for number in range(count)]
    mount = ReadOnlyMount(attempt.root / "mounts" / "data", files, "data")
    attempt.start(mount)
    with os.scandir(mount.mount_point / "many") as listed:
        assert sum(entry.stat().st_size for entry in listed) == 7 * count
    assert (mount.mount_point / "many" / f"{count - 1:06}.jpg").read_bytes() == b"content"
    assert not (mount.mount_point / "many" / f"{count:06}.jpg").exists()


def test_parts_of_a_huge_file_are_read_alone(attempt: AttemptMounts) -> None:
    size = 10_000_000_000
    with open(attempt.stored / "huge", "wb") as file:
        for place in (0, size // 2, size - 4):
            file.seek(place)
            file.write(b"here")
    mount = attempt.read_only()
    attempt.start(mount)
    with open(mount.mount_point / "huge", "rb", buffering=0) as huge:
        assert os.fstat(huge.fileno()).st_size == size
        for place in (0, size // 2, size - 4):
            assert os.pread(huge.fileno(), 4, place) == b"here"
    attempt.close()
    attempt.ended()
    assert attempt.told()["mounts"]["data"]["read_bytes"] < 100_000_000
