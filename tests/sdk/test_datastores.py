import threading
from pathlib import Path

import pytest

from azureml.core import Dataset, Datastore
from azureml.exceptions import UserErrorException


@pytest.fixture
def store(workspace):
    return workspace.get_default_datastore()


@pytest.fixture(params=["by path", "as bytes"])
def sending(request, workspace, monkeypatch):
    """Files are handed over by their paths, or sent to a service that does not see them."""
    monkeypatch.setattr(workspace._client, "_shares_files", request.param == "by path")


def files(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def listed(store) -> list[str]:
    return [file["path"] for file in store._files()]


def test_uploads_say_what_they_do_and_leave_what_is_there(store, sending, tmp_path, capsys):
    folder = files(tmp_path / "data", one="1", two="2")
    store.upload(str(folder), "up")
    said = capsys.readouterr().out.splitlines()
    assert (said[0], said[-1]) == ("Uploading an estimated of 2 files", "Uploaded 2 files")
    assert {f"Uploading {folder}/one.txt", f"Uploading {folder}/two.txt"} <= set(said)
    assert [line.partition(", ")[2] for line in said if line.startswith("Uploaded /")] == [
        "1 files out of an estimated total of 2",
        "2 files out of an estimated total of 2",
    ]
    files(folder, one="other", three="3")
    store.upload(str(folder), "up")
    said = capsys.readouterr().out.splitlines()
    assert "Target already exists. Skipping upload for up/one.txt" in said
    assert (said[-1], listed(store)) == ("Uploaded 1 files", ["up/one.txt", "up/three.txt", "up/two.txt"])
    store.download(str(tmp_path / "first"), show_progress=False)
    store.upload(str(folder), "up", overwrite=True, show_progress=False)
    store.download(str(tmp_path / "second"), show_progress=False)
    assert [(tmp_path / name / "up/one.txt").read_text() for name in ("first", "second")] == ["1", "other"]
    assert capsys.readouterr().out == ""


def test_a_large_upload_is_told_file_by_file(store, tmp_path, capsys):
    folder = tmp_path / "large"
    folder.mkdir()
    for name in ("a", "b"):
        with (folder / name).open("wb") as sparse:
            sparse.truncate(300_000_000)
    store.upload(str(folder), "large")
    said = [line.split("/")[-1] for line in capsys.readouterr().out.splitlines() if str(folder) in line]
    totals = ", {} files out of an estimated total of 2"
    assert said == ["a", "a" + totals.format(1), "b", "b" + totals.format(2)]


def test_downloads_keep_paths_and_skip_what_is_there(store, tmp_path, capsys):
    store.upload(str(files(tmp_path / "data", one="1", two="2")), "a/b", show_progress=False)
    store.upload(str(tmp_path / "data"), "ab", show_progress=False)
    assert store.download(str(tmp_path / "there"), prefix="a") == 2
    said = capsys.readouterr().out.splitlines()
    assert "Downloading a/b/one.txt" in said
    assert said[-1].endswith(", 2 files out of an estimated total of 2")
    (tmp_path / "there/a/b/one.txt").write_text("mine")
    assert store.download(str(tmp_path / "there"), prefix="a/b/one.txt") == 0
    assert "Skipping download" in capsys.readouterr().out
    assert (tmp_path / "there/a/b/one.txt").read_text() == "mine"
    assert store.download(str(tmp_path / "there"), prefix="nowhere") == 0


def test_names_of_every_kind_come_back_as_they_went(store, sending, tmp_path):
    names = ["ünï.txt", "with space", "new\nline", "a%2Fb", "#?&=+", "日本", "'quotes\""]
    folder = files(tmp_path / "odd")
    for name in names:
        (folder / name).write_text(name)
    store.upload(str(folder), "odd", show_progress=False)
    assert listed(store) == sorted(f"odd/{name}" for name in names)
    store.download(str(tmp_path / "back"), show_progress=False)
    assert {path.name: path.read_text() for path in (tmp_path / "back/odd").iterdir()} == {name: name for name in names}


@pytest.mark.parametrize("target", ["../up", "a/../../b", "x\x00y"])
def test_a_target_outside_of_the_datastore_is_refused(store, tmp_path, target):
    with pytest.raises(UserErrorException, match="target_path must stay below"):
        store.upload(str(files(tmp_path / "data", one="1")), target)


def test_a_folder_is_registered_listed_made_default_and_forgotten(workspace, tmp_path):
    folder = files(tmp_path / "scans", one="1")
    made = Datastore.register_folder(workspace, "scans", folder)
    assert (made.folder, made.datastore_type, listed(made)) == (str(folder), "Folder", ["one.txt"])
    assert sorted(workspace.datastores) == ["scans", "workspaceblobstore", "workspacefilestore"]
    made.set_as_default()
    assert workspace.get_default_datastore().name == "scans"
    workspace.set_default_datastore("workspaceblobstore")
    assert Datastore(workspace).name == "workspaceblobstore"
    made.unregister()
    assert (folder / "one.txt").read_text() == "1"
    with pytest.raises(UserErrorException, match=r"no datastore 'scans'.*'workspaceblobstore'"):
        Datastore.get(workspace, "scans")


def test_a_name_that_is_taken_is_kept_unless_overwritten(workspace, tmp_path):
    for name in ("old", "new"):
        files(tmp_path / name)
    Datastore.register_folder(workspace, "data", tmp_path / "old")
    with pytest.raises(UserErrorException, match=r"data.*overwrite"):
        Datastore.register_folder(workspace, "data", tmp_path / "new")
    Datastore.register_folder(workspace, "data", tmp_path / "new", overwrite=True)
    assert Datastore.get(workspace, "data").folder == str(tmp_path / "new")


def test_a_folder_that_is_not_there_is_an_error_at_registration(workspace, tmp_path):
    with pytest.raises(UserErrorException, match="absent"):
        Datastore.register_folder(workspace, "absent", tmp_path / "absent")
    Datastore.register_folder(workspace, "later", tmp_path / "later", skip_validation=True)
    Datastore.register_folder(workspace, "made", tmp_path / "made", create_if_not_exists=True)
    assert (tmp_path / "made").is_dir()


def test_many_threads_upload_to_one_datastore(store, tmp_path):
    folders = [files(tmp_path / f"d{number}", **{f"f{number}": str(number)}) for number in range(6)]
    threads = [
        threading.Thread(target=store.upload, args=(str(folder), "many"), kwargs={"show_progress": False})
        for folder in folders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert listed(store) == [f"many/f{number}.txt" for number in range(6)]


def test_a_folder_is_uploaded_by_a_pattern_and_is_a_dataset(store, tmp_path):
    folder = files(tmp_path / "mixed", one="1")
    (folder / "deep").mkdir()
    (folder / "deep/table.csv").write_text("a,b")
    made = Dataset.File.upload_directory(str(folder), (store, "mixed"), pattern="**/*.csv", show_progress=False)
    assert made.to_path() == ["/deep/table.csv"]
