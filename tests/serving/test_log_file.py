import os
from pathlib import Path

import pytest

from runyard.serving.service_log import ServiceLog, dropped_bytes, read_log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def numbered(count: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(count))


def test_a_part_is_read_from_its_offset(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\n")
    assert read_log(path, 4, 4) == (b"two\n", 8)
    assert read_log(path, 8, 100) == (b"three\n", 14)
    assert read_log(path, 14, 100) == (b"", 14)


def test_a_negative_offset_counts_from_the_end(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\n")
    assert read_log(path, -6, 100) == (b"three\n", 14)
    assert read_log(path, -600, 3) == (b"one", 3)


def test_there_is_nothing_to_read_where_nothing_is(path: Path) -> None:
    assert read_log(path, 0, 100) == (b"", 0)


def test_the_oldest_part_is_dropped_and_offsets_stay(path: Path) -> None:
    log = ServiceLog(path)
    text = numbered(100_000)
    os.write(log.fileno(), text)
    log.drop_oldest(most_bytes=500_000, kept_bytes=250_000)
    start = dropped_bytes(path)
    assert len(text) - 250_000 <= start < len(text) - 240_000
    assert read_log(path, 0, len(text)) == (text[start:], len(text))
    assert text[start:].startswith(b"line "), "from the start of a line on"
    assert read_log(path, -12, 100) == (text[-12:], len(text))
    assert path.stat().st_blocks * 512 < 400_000, "the disk has its room back"
    os.write(log.fileno(), b"next\n")
    assert read_log(path, len(text), 100) == (b"next\n", len(text) + 5)
    log.close()


def test_a_log_below_its_bound_is_left_alone(path: Path) -> None:
    log = ServiceLog(path)
    os.write(log.fileno(), numbered(100))
    log.drop_oldest(most_bytes=100_000, kept_bytes=50_000)
    assert dropped_bytes(path) == 0
    log.close()


def test_a_line_without_an_end_can_be_dropped_too(path: Path) -> None:
    log = ServiceLog(path)
    os.write(log.fileno(), b"x" * 400_000)
    log.drop_oldest(most_bytes=200_000, kept_bytes=100_000)
    assert dropped_bytes(path) == 300_000
    log.close()


def test_a_link_in_place_of_the_log_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        ServiceLog(path)
    assert read_log(path, 0, 100) == (b"", 0)
