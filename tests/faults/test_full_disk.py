"""A disk that fills, on a small file system of its own. It stops acknowledgements and loses nothing acknowledged."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from azureml.core import Experiment, Run
from azureml.exceptions import AzureMLException
from runyard.testing.small_disk import mounted
from tests.faults.yard import Yard, message_of

SIZE_MB = 96


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", SIZE_MB) as place:
        yield place


@pytest.fixture
def small_yard(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setenv("RUNYARD_HOME", str(small_disk / "home"))
    (tmp_path / "sources").mkdir()
    yard = Yard(tmp_path / "sources")
    yield yard
    yard.close()


FILL = """
def fill():
    with open("filler", "wb", buffering=0) as sink:  # a buffer would hold the rest of a torn write, and fail at the end
        try:
            while True:
                sink.write(bytes(1 << 16))
        except OSError:
            pass
"""


def test_a_script_that_fills_the_disk_hears_so_and_others_keep_theirs(small_yard: Yard) -> None:
    before = small_yard.finish("from azureml.core import Run\nRun.get_context().log('kept', 1)")
    run = small_yard.finish(
        "import os\nos.makedirs('outputs', exist_ok=True)\n"
        "with open('outputs/big', 'wb') as sink:\n    for _ in range(200):\n        sink.write(bytes(1 << 20))"
    )
    assert run.get_status() == "Failed"
    assert re.search("(?i)no space|disk", message_of(run))
    assert before.get_metrics() == {"kept": 1}
    assert "outputs/big" in run.get_file_names(), "what the script had written is handed over all the same"
    small_yard.delete(run)
    assert small_yard.finish("print('there is room again')").get_status() == "Completed"


def test_points_logged_on_a_full_disk_are_kept_until_there_is_room(small_yard: Yard) -> None:
    """10,000 points wait in memory; what is beyond is counted and shown on the run."""
    run = small_yard.finish(
        FILL
        + """
import os
from azureml.core import Run
run = Run.get_context()
run.log("before", 1)
fill()
for step in range(12_000):
    run.log("point", step)
os.remove("filler")
run.log("after", 1)
"""
    )
    assert run.get_status() == "Completed", message_of(run)
    metrics = run.get_metrics()
    assert (metrics["before"], metrics["after"]) == (1, 1)
    kept = len(metrics["point"])
    assert 10_000 <= kept <= 12_000
    dropped = 12_000 - kept
    assert not dropped or any(str(dropped) in warning for warning in _warnings(run))


def _warnings(run: Run) -> list[str]:
    return [str(warning) for warning in run.get_details().get("warnings", [])]


def test_a_service_without_room_refuses_and_recovers(small_yard: Yard, small_disk: Path) -> None:
    before = small_yard.finish("print('was here')")
    filler = small_disk / "filler"
    _fill(filler)
    with pytest.raises(AzureMLException, match=r"(?i)space|full|disk"):
        _start_many_runs(small_yard)
    assert before.get_status() == "Completed"
    filler.unlink()
    assert small_yard.finish("print('room again')").get_status() == "Completed"


def _fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as sink:
        while True:
            sink.write(bytes(1 << 16))


def _start_many_runs(yard: Yard) -> None:
    for number in range(1000):
        Experiment(yard.workspace, f"no-room-{number}").start_logging(snapshot_directory=None)
