"""Data where a run cannot have mounts of its own: links, clones and copies."""

import os
import stat
from pathlib import Path

import pytest

from runyard.core.errors import DataFailed, RunyardError
from runyard.core.records.data import DataForAttempt, DatasetFiles, NetworkRules, SourceFile, StoreAccess
from runyard.node.data import file_trees
from runyard.node.data.mount_points import MountPoints
from runyard.node.data.staging import stage_all
from runyard.node.data.staging_context import StagingContext
from runyard.node.task_folder import TaskFolder
from tests.node.data.conftest import dataset, on_folder, one_file, reference, whole_folder
from tests.node.data.web_server import WebServer


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def place(tmp_path: Path, said: list[str]) -> StagingContext:
    return a_place(tmp_path / "home", said)


def a_place(home: Path, said: list[str]) -> StagingContext:
    folder = TaskFolder(home, "run1.1")
    folder.make_room()
    return StagingContext(folder, MountPoints(folder, are_private=False), -1, said.append, said.append)


def files_below(root: Path) -> dict[str, str]:
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}


def test_a_mounted_folder_is_copied_and_read_only(datastore, place):
    data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    root = Path(stage_all([dataset()], data, place).paths["mnist"])
    assert root == place.folder.data / "mnist"
    assert files_below(root) == {"train/a.gz": "first", "test/b.gz": "second"}
    assert stat.S_IMODE((root / "train/a.gz").stat().st_mode) == 0o444


def test_writing_into_a_copy_leaves_the_datastore_alone(datastore, place):
    data = on_folder(datastore, mnist=one_file(datastore, "notes.txt"))
    path = Path(stage_all([dataset()], data, place).paths["mnist"])
    path.chmod(0o644)
    path.write_text("mine")
    assert (datastore / "notes.txt").read_text() == "notes"


def test_a_very_large_file_is_pointed_at(datastore, place):
    with (datastore / "large").open("wb") as file:
        file.truncate(file_trees.POINTED_AT_ABOVE_BYTES + 1)
    data = on_folder(datastore, mnist=one_file(datastore, "large"))
    path = Path(stage_all([dataset()], data, place).paths["mnist"])
    assert path.readlink() == datastore / "large"


def test_a_copy_that_was_changed_is_not_used_again(datastore, place):
    data = on_folder(datastore, mnist=one_file(datastore, "notes.txt"))
    path = Path(stage_all([dataset()], data, place).paths["mnist"])
    before = path.stat()
    path.chmod(0o644)
    path.write_text("other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert Path(stage_all([dataset()], data, place).paths["mnist"]).read_text() == "notes"


def test_an_absolute_path_on_compute_is_not_made_and_that_is_said(datastore, place, said, tmp_path):
    wanted = tmp_path / "elsewhere"
    data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    root = stage_all([dataset(path_on_compute=str(wanted))], data, place).paths["mnist"]
    assert not wanted.exists()
    assert [line for line in said if str(wanted) in line and root in line]


def test_a_mounted_reference_is_the_folder_itself(datastore, place):
    brought = stage_all([reference("mount", "mnist", path_on_compute="in")], on_folder(datastore), place)
    assert brought.paths["ref"] == str(datastore / "mnist")
    assert (place.folder.work / "in/train/a.gz").read_text() == "first"


def test_a_path_on_compute_that_the_code_has_taken_is_said(datastore, place, said):
    (place.folder.work / "in").mkdir()
    brought = stage_all([reference("mount", "mnist", path_on_compute="in")], on_folder(datastore), place)
    assert brought.paths["ref"] == str(datastore / "mnist")
    assert any("the code of the run has something there" in line for line in said)


def test_bringing_twice_is_harmless(datastore, place):
    data = on_folder(datastore, mnist=whole_folder(datastore, "mnist"))
    items = [dataset(path_on_compute="in"), reference("download", "notes.txt"), reference("upload", "x", "up")]
    assert stage_all(items, data, place) == stage_all(items, data, place)


def test_a_dataset_without_files_is_refused(datastore, place):
    with pytest.raises(DataFailed, match="Data input 'mnist': the dataset has no files"):
        stage_all([dataset()], on_folder(datastore, mnist=DatasetFiles([], is_one_file=False)), place)


def test_data_that_does_not_fit_says_so(small_disk, said):
    server = WebServer()
    server.pages["/large"] = bytes(3_000_000)
    file = SourceFile("large", "", f"{server.url}/large", 3_000_000, server.etag("/large"))
    found = DatasetFiles([file], is_one_file=True)
    data = DataForAttempt({"mnist": found}, {"": StoreAccess("web", "")}, NetworkRules())
    try:
        with pytest.raises(RunyardError, match=r"Data input 'mnist': .*whose disk has \d+ left. Free space"):
            stage_all([dataset(mode="download")], data, a_place(small_disk / "home", said))
    finally:
        server.close()
