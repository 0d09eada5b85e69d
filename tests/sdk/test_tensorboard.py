"""TensorBoard from its own environment, asked over HTTP what it shows."""

import json
import os
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment
from azureml.exceptions import UserErrorException
from azureml.tensorboard import Tensorboard
from azureml.tensorboard.export import export_to_tensorboard
from azureml.tensorboard.tensorboard import _update_file
from tests.sdk.yard import submit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_temporary_folder")]
PATIENCE_SECONDS = 120
TRAINING = """
import sys
from azureml.core import Run
from azureml.tensorboard.export import _EventFile
with _EventFile("logs") as events:
    events.scalar("loss", 0.5, 0)
    events.flush()
    Run.get_context().flush()
    with open(sys.argv[1]) as gate:
        gate.readline()
        events.scalar("loss", 0.25, 1)
        events.flush()
        gate.readline()
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def asked(address: str, path: str) -> Any:
    with urllib.request.urlopen(address + "data/plugin/scalars/" + path, timeout=10) as answer:
        return json.load(answer)


def eventually(shown: Callable[[], Any], wanted: Any) -> None:
    """TensorBoard tells nobody when it has read a file: it must be asked until it shows it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (last := shown()) != wanted:
        assert time.monotonic() < deadline, last
        time.sleep(0.2)


def values(address: str, run_id: str) -> list[float]:
    if "loss" not in asked(address, "tags").get(run_id, {}):
        return []
    return [value for _, _, value in asked(address, f"scalars?run={run_id}&tag=loss")]


@pytest.fixture
def boards() -> Iterator[list[Tensorboard]]:
    started: list[Tensorboard] = []
    yield started
    for board in started:
        board.stop()


def test_it_shows_a_run_as_it_goes_on_and_after_its_end(
    experiment: Experiment, tmp_path: Path, port: int, boards: list[Tensorboard], capsys: pytest.CaptureFixture[str]
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    # Held open for reading too, so that no write here waits for a script that has failed.
    holding = os.open(gate, os.O_RDWR)
    run = submit(experiment, tmp_path / "source", TRAINING, gate)
    board = Tensorboard([run], port=port)
    boards.append(board)
    address = board.start()
    assert capsys.readouterr().out == f"{address}\n"
    with pytest.raises(UserErrorException, match="started already"):
        board.start()
    eventually(lambda: values(address, run.id), [0.5])
    os.write(holding, b"go on\n")
    eventually(lambda: values(address, run.id), [0.5, 0.25])
    os.write(holding, b"end\n")
    run.wait_for_completion()
    os.close(holding)
    board.stop()
    board.stop()
    with pytest.raises(OSError, match="refused"):
        asked(address, "tags")
    address = board.start()
    eventually(lambda: values(address, run.id), [0.5, 0.25])


def test_it_reads_what_was_exported(
    experiment: Experiment, tmp_path: Path, port: int, boards: list[Tensorboard]
) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        for value in (0.5, 0.25, 0.125):
            run.log("loss", value)
        run.log_row("scores", precision=0.75)
        run.log("name", "no number")
    board_logs = tmp_path / "board"
    export_to_tensorboard(run, str(board_logs))
    board = Tensorboard([], local_root=str(board_logs), port=port)
    boards.append(board)
    address = board.start()
    eventually(lambda: values(address, run.id), [0.5, 0.25, 0.125])
    assert sorted(asked(address, "tags")[run.id]) == ["loss", "scores/precision"]


def test_a_board_of_nothing_is_refused() -> None:
    with pytest.raises(UserErrorException, match="at least one run, or local_root"):
        Tensorboard([])


def test_a_log_that_grows_stays_the_file_that_tensorboard_has_open(tmp_path: Path) -> None:
    """TensorBoard's data server keeps event logs open, and reads what is appended."""
    target = tmp_path / "events.out.tfevents.1"
    _update_file(str(target), lambda place: Path(place).write_bytes(b"first "))
    with target.open("rb") as opened:
        assert opened.read() == b"first "
        _update_file(str(target), lambda place: Path(place).write_bytes(b"first second "))
        assert opened.read() == b"second "
