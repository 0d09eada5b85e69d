"""Files and snapshots that a run is given while it goes on."""

import zipfile
from pathlib import Path

import pytest

from azureml.core import Experiment
from azureml.exceptions import SnapshotException, UserErrorException
from tests.sdk.yard import submit


def test_a_snapshot_is_taken_once_of_a_run_that_goes_on(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "code" / "deep").mkdir(parents=True)
    (tmp_path / "code" / "deep" / "train.py").write_text("print('hello')")
    run = experiment.start_logging(snapshot_directory=None)
    taken = run.take_snapshot(str(tmp_path / "code"))
    assert run.get_snapshot_id() == run.get_properties()["ContentSnapshotId"] == taken
    assert zipfile.ZipFile(run.restore_snapshot(path=str(tmp_path))).namelist() == ["deep/train.py"]
    with pytest.raises(SnapshotException, match="one at most"):
        run.take_snapshot(str(tmp_path / "code"))
    run.complete()


def test_a_snapshot_can_be_of_one_file(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    with experiment.start_logging(snapshot_directory=None) as run:
        run.take_snapshot(str(tmp_path / "note.txt"))
    assert zipfile.ZipFile(run.restore_snapshot(path=str(tmp_path))).read("note.txt") == b"a note"


def test_a_run_that_began_with_a_snapshot_gets_no_other(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("pass")
    with experiment.start_logging(snapshot_directory=str(tmp_path / "code")) as run:
        with pytest.raises(SnapshotException, match="one at most"):
            run.take_snapshot(str(tmp_path))
        with pytest.raises(UserErrorException, match="does not exist"):
            run.take_snapshot(str(tmp_path / "absent"))


def test_inside_a_run_a_name_that_is_taken_is_refused_by_every_process(experiment: Experiment, tmp_path: Path) -> None:
    text = """
import os
from azureml.core import Run
from azureml.exceptions import UserErrorException
run = Run.get_context()
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.txt", "w") as sink:
    sink.write("first")
run.upload_file("outputs/model.txt", "outputs/model.txt")
run.flush()
def again():
    try:
        run.upload_files(["new.txt", "outputs/model.txt"], ["train.py", "train.py"])
    except UserErrorException as error:
        print("refused" if "'outputs/model.txt' already" in str(error) else error, flush=True)
again()
if os.fork() == 0:
    again()
    os._exit(0)
os.wait()
run.upload_file("new.txt", "train.py")
"""
    run = submit(experiment, tmp_path / "source", text)
    run.wait_for_completion()
    assert run.get_details_with_logs()["logFiles"]["azureml-logs/70_driver_log.txt"] == "refused\nrefused\n"
    assert run.get_file_names() == ["azureml-logs/70_driver_log.txt", "new.txt", "outputs/model.txt"]
    run.download_file("outputs/model.txt", str(tmp_path / "model.txt"))
    assert (tmp_path / "model.txt").read_text() == "first"


def test_an_image_that_is_logged_again_does_not_end_the_script(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "plot.png").write_bytes(b"\x89PNG 1")
    with experiment.start_logging(snapshot_directory=None) as run:
        run.log_image("plot", path="plot.png")
        (tmp_path / "plot.png").write_bytes(b"\x89PNG 2")
        run.log_image("plot", path="plot.png")
    run.download_file("plot.png", str(tmp_path / "down.png"))
    assert (tmp_path / "down.png").read_bytes() == b"\x89PNG 2"


def test_interactive_runs_have_no_type(experiment: Experiment, tmp_path: Path) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        assert run.type is None
        assert repr(run) == f"Run(Experiment: story,\nId: {run.id},\nType: None,\nStatus: Running)"
    submitted = submit(experiment, tmp_path / "source", "pass")
    assert list(experiment.get_runs(type="azureml.scriptrun")) == [submitted]
    assert list(experiment.get_runs()) == [submitted, run]
    submitted.wait_for_completion()
