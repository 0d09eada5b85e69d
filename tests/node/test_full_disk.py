"""A disk that is full when a supervisor is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.testing.small_disk import mounted
from tests.node.conftest import is_running
from tests.node.test_recovery import WAITS_FOR_FILE, is_followed, let_go, running_script, supervisor_pid

SIZE_MB = 48


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """On a small file system of its own."""
    with mounted(tmp_path / "small", SIZE_MB) as place:
        yield place


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as sink:
        try:
            while True:
                sink.write(bytes(1 << 16))
        except OSError:
            return


def test_a_script_is_followed_though_the_disk_is_full(submit, service, home, tmp_path):
    submit(f"{WAITS_FOR_FILE}\nos._exit(3)")
    script = running_script(service)
    fill(tmp_path / "filler")
    os.kill(supervisor_pid(home), signal.SIGKILL)
    is_followed(service)
    assert is_running(script)
    (tmp_path / "filler").unlink()
    let_go(home)
    assert service.ended()["exit_code"] == 3
