"""A disk that fills, on a small file system of its own. It stops acknowledgements and loses nothing acknowledged."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from azureml.core import Experiment, Run
from azureml.exceptions import AzureMLException
from runyard.core.run_folders import sdk_root
from runyard.testing.small_disk import mounted
from tests.faults.yard import Yard, ended, message_of

pytestmark = pytest.mark.slow

SIZE_MB = 96
BLOCK = 4096


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
def fill(name="filler"):
    with open(name, "wb", buffering=0) as sink:  # a buffer would hold the rest of a torn write, and fail at the end
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


def test_a_full_disk_that_swallowed_the_traceback_and_has_room_again_is_named(small_yard: Yard) -> None:
    """Handlers of exits run last first: there is room again once the SDK has noted the cause."""
    run = small_yard.finish(
        FILL
        + """
import atexit, os
atexit.register(os.remove, "filler")
from azureml.core import Run
Run.get_context().log("point", 1)
fill()
while True:
    print("x" * 1000)
"""
    )
    assert run.get_status() == "Failed"
    assert "A disk that the script writes to was full" in message_of(run)
    assert run.get_metrics() == {"point": 1}


def test_compiled_files_of_the_sdk_that_a_full_disk_cut_off_fail_no_later_run(yard: Yard) -> None:
    logs = "from azureml.core import Run\nRun.get_context().log('point', 1)"
    assert yard.finish(logs).get_status() == "Completed"
    compiled = [file for file in sdk_root(yard.home).rglob("*.pyc") if file.stat().st_size > BLOCK]
    assert compiled
    for file in compiled:
        os.truncate(file, BLOCK)
    after = yard.finish(logs)
    assert after.get_status() == "Completed", message_of(after)
    assert after.get_metrics() == {"point": 1}


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


LOGS_TO_THE_END = (
    FILL
    + """
import os, sys
from azureml.core import Run
oracle = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
run = Run.get_context()
def log(value):
    run.log("point", value)
    os.write(oracle, b"%d\\n" % value)
    os.fsync(oracle)
"""
)


def _oracle(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().splitlines()]


def _points(run: Run) -> list[int]:
    found = run.get_metrics().get("point", [])
    return found if isinstance(found, list) else [found]


def test_points_of_a_script_that_ends_while_the_disk_is_full_are_stored(
    small_yard: Yard, small_disk: Path, tmp_path: Path
) -> None:
    script = (
        LOGS_TO_THE_END
        + """
for value in range(100):
    log(value)
os.chdir(sys.argv[2])
fill()
for value in range(100, 715):
    log(value)
"""
    )
    run = ended(small_yard.submit(script, arguments=(tmp_path / "oracle", small_disk)))
    assert run.get_status() == "Completed", message_of(run)
    assert _points(run) == _oracle(tmp_path / "oracle") == list(range(715))
    assert _warnings(run) == []


def test_points_that_no_room_was_held_for_are_counted(small_yard: Yard, small_disk: Path, tmp_path: Path) -> None:
    """Room is held for one process: what a second one logged is lost, and the run says how much."""
    script = (
        LOGS_TO_THE_END
        + """
os.chdir(sys.argv[2])
fill()
child = os.fork()
if child:
    os.waitpid(child, 0)
    fill("what the child left")
for value in range(1000 if child else 0, 1300 if child else 200):
    log(value)
"""
    )
    run = ended(small_yard.submit(script, arguments=(tmp_path / "oracle", small_disk)))
    assert run.get_status() == "Completed", message_of(run)
    logged, stored = _oracle(tmp_path / "oracle"), _points(run)
    lost = len(logged) - len(stored)
    assert set(stored) < set(logged)
    assert lost <= 300
    assert any(f"{lost} logged points were lost" in warning for warning in _warnings(run)), _warnings(run)


def test_a_process_that_leaves_with_points_in_memory_is_named(
    small_yard: Yard, small_disk: Path, tmp_path: Path
) -> None:
    leaves = "\nos.chdir(sys.argv[2])\nfill()\nfor value in range(50):\n    log(value)\nos._exit(0)\n"
    run = ended(small_yard.submit(LOGS_TO_THE_END + leaves, arguments=(tmp_path / "oracle", small_disk)))
    assert run.get_status() == "Completed", message_of(run)
    assert len(_points(run)) < 50
    assert any("how many is not known" in warning for warning in _warnings(run)), _warnings(run)


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
