import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import RUNYARD, Shell

PREPARE = """
from azureml.core import Dataset, Environment, Experiment, ScriptRunConfig, Workspace
workspace = Workspace.from_config()
store = workspace.get_default_datastore()
store.upload("petals", "petals", overwrite=True, show_progress=False)
petals = Dataset.File.from_files((store, "petals"))
petals = petals.register(workspace, "petals", description="of flowers", tags={"kind": "plant"})
here = Environment("here")
here.python.user_managed_dependencies = True
inputs = [petals.as_named_input("petals").as_mount(), store.path("petals", "all").as_mount()]
config = ScriptRunConfig("reading", "read.py", arguments=inputs, environment=here)
run = Experiment(workspace, "reading").submit(config)
run.wait_for_completion()
run.register_model("sum", model_path="outputs/sum.txt")
print(petals.id, run.id)
"""
READ = """
import os, sys
folder = sys.argv[1]
os.makedirs("outputs", exist_ok=True)
total = sum(int(open(os.path.join(folder, name)).read()) for name in os.listdir(folder))
open("outputs/sum.txt", "w").write(str(total))
"""


@pytest.fixture(scope="session")
def petals(shell: Shell) -> tuple[str, str]:
    """Ids of a dataset of three files, and of the run that read it."""
    folder = shell.folder / "petals"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(str(number), encoding="utf-8")
    (shell.folder / "reading").mkdir()
    (shell.folder / "reading" / "read.py").write_text(READ, encoding="utf-8")
    dataset, run = shell.python(PREPARE).split()[-2:]
    return dataset, run


def test_the_list_shows_what_a_version_saw(shell, petals):
    lines = shell("data", "list").stdout.splitlines()
    assert lines[0].split() == ["DATASET", "VERSION", "TYPE", "FILES", "SIZE", "CREATED", "BY"]
    assert lines[1].split()[:5] == ["petals", "1", "file", "3", "3"]


def test_a_dataset_is_shown_with_its_files_its_runs_and_their_models(shell, petals):
    dataset, run = petals
    shown = shell("data", "show", "petals").stdout
    assert "of flowers" in shown
    assert "kind=plant" in shown
    assert "2.txt" in shown
    assert run in shown
    assert "sum" in shown.partition("models of those runs")[2]
    as_json = json.loads(shell("data", "show", dataset, "-o", "json").stdout)
    assert [file["path"] for file in as_json["files"]] == ["0.txt", "1.txt", "2.txt"]
    assert as_json["lineage"]["runs"][0]["run_id"] == run


def test_a_run_is_shown_with_the_data_it_read(shell, petals):
    shown = shell("runs", "show", petals[1]).stdout.partition("\ndata\n")[2]
    assert [line.split() for line in shown.splitlines()[:3]] == [
        ["USE", "NAME", "DATA", "MODE"],
        ["input", "petals", "petals,", "version", "1", "Mount"],
        ["reference", "all", "workspaceblobstore:", "petals", "Mount"],
    ]


def test_a_dataset_that_is_not_there_is_named(shell, petals):
    done = shell("data", "show", "leaves")
    assert done.returncode == 3
    assert "'leaves'" in done.stderr
    assert "'petals'" in done.stderr


def test_a_changed_source_is_said(shell, petals):
    stored = next((shell.home / "datastores").rglob("petals/1.txt"))
    before, times = stored.read_text(encoding="utf-8"), stored.stat()
    stored.write_text("1000", encoding="utf-8")
    try:
        assert "changed" in shell("data", "show", "petals").stdout
    finally:
        stored.write_text(before, encoding="utf-8")
        os.utime(stored, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_dataset_whose_source_is_gone_is_shown_with_its_runs(shell, petals):
    dataset, run = petals
    folder = next((shell.home / "datastores").rglob("petals"))
    folder.rename(folder.with_name("withered"))
    try:
        shown = shell("data", "show", dataset).stdout
    finally:
        folder.with_name("withered").rename(folder)
    assert "There is nothing at" in shown
    assert run in shown


def test_files_are_downloaded_and_not_replaced_unasked(shell, petals, tmp_path):
    first = shell("data", "download", "petals", "--target", tmp_path, "-o", "json")
    assert sorted(json.loads(first.stdout)) == [str(tmp_path / f"{number}.txt") for number in range(3)]
    assert (tmp_path / "2.txt").read_text(encoding="utf-8") == "2"
    again = shell("data", "download", "petals", "--target", tmp_path)
    assert again.returncode == 1
    assert "--overwrite" in again.stderr
    assert shell("data", "download", "petals", "--target", tmp_path, "--overwrite").returncode == 0


def test_a_folder_is_uploaded_and_registered(shell, petals, tmp_path):
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    done = shell("data", "upload", tmp_path, "letters", "--register", "letters")
    assert done.stdout.splitlines()[-1] == "letters, version 1"
    files = json.loads(shell("data", "show", "letters", "-o", "json").stdout)["files"]
    assert [file["path"] for file in files] == ["a.txt"]


def test_an_upload_as_json_prints_nothing_else(shell, petals, tmp_path):
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    done = shell("data", "upload", tmp_path / "a.txt", "workspacefilestore:one", "--register", "one", "-o", "json")
    answer = json.loads(done.stdout)
    assert {**answer, "id": ""} == {
        "datastore": "workspacefilestore",
        "path": "one",
        "id": "",
        "name": "one",
        "version": 1,
    }


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (["nosuch:letters"], "There is no datastore 'nosuch'"),
        (["../letters"], "got '../letters'"),
        (["letters", "--register", "a/b"], "'a/b' is not a dataset name"),
        (["letters", "--register", ""], "is not a dataset name"),
        (["letters", "--workspace", "nosuch"], "nosuch"),
    ],
)
def test_an_upload_that_cannot_be_is_refused_in_one_line_before_anything_is_sent(
    shell, petals, tmp_path, target, named
):
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    done = shell("data", "upload", tmp_path, *target)
    assert (done.returncode in (2, 3), done.stdout) == (True, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert named in line


@pytest.mark.parametrize(
    "command", [["data", "show"], ["data", "download"], ["datastores", "show"], ["models", "show"], ["runs", "show"]]
)
def test_an_empty_name_is_refused(shell, petals, command):
    done = shell(*command, "")
    assert (done.returncode, done.stderr) == (2, "Error: The name is empty. The `list` commands show the names.\n")


def test_a_mount_lasts_until_its_input_ends(shell, petals, tmp_path):
    place = tmp_path / "mounted"
    command = [str(RUNYARD), "data", "mount", "petals", str(place), "-o", "json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=shell.variables, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        assert json.loads(process.stdout.readline()) == {"mounted": str(place), "size": 3}
        assert (place / "2.txt").read_text(encoding="utf-8") == "2"
        with pytest.raises(OSError, match="Read-only"):
            (place / "new.txt").write_text("no", encoding="utf-8")
        assert json.loads(process.stdout.readline()) == {"read": 1}
        process.stdin.close()
        assert process.wait(30) == 0
    assert not os.path.ismount(place)


def test_an_interrupted_mount_is_gone(shell, petals, tmp_path):
    place = tmp_path / "mounted"
    command = [str(RUNYARD), "data", "mount", "petals", str(place), "-o", "json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=shell.variables, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert "Traceback" not in errors
    assert not os.path.ismount(place)


def test_a_folder_with_files_is_not_mounted_over(shell, petals, tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    done = shell("data", "mount", "petals", tmp_path)
    assert done.returncode == 2
    assert "not empty" in done.stderr


@pytest.mark.parametrize(
    ("place", "words"), [("a-file", "is not a folder"), ("/proc/nowhere", "No such file"), ("/proc", "is mounted on")]
)
def test_a_place_that_cannot_be_mounted_on_is_refused_in_one_line(shell, petals, tmp_path, place, words):
    (tmp_path / "a-file").write_text("mine", encoding="utf-8")
    done = shell("data", "mount", "petals", tmp_path / place)
    assert done.returncode in (1, 2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert words in line


def test_datastores_are_added_shown_and_removed(shell, petals, tmp_path):
    assert shell("datastores", "add", "scans", "folder", f"folder={tmp_path}").returncode == 0
    assert str(tmp_path) in shell("datastores", "show", "scans").stdout
    listed = {row["name"]: row for row in json.loads(shell("datastores", "list", "-o", "json").stdout)}
    assert listed["workspaceblobstore"]["body"]["is_default"]
    assert listed["scans"]["created_by"] == "owner"
    assert "created by   owner" in shell("datastores", "show", "scans").stdout
    other = ["datastores", "add", "scans", "folder", f"folder={tmp_path.parent}"]
    assert "Pass --overwrite" in shell(*other).stderr
    changed = json.loads(shell(*other, "--overwrite", "-o", "json").stdout)
    assert changed["body"]["settings"] == {"folder": str(tmp_path.parent)}
    assert shell("datastores", "remove", "scans").returncode == 0
    assert shell("datastores", "show", "scans").returncode == 3
    assert shell("datastores", "remove", "scans").returncode == 3
    assert Path(tmp_path).is_dir()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["s3", "bucket=b", "secret_access_key=hush"], "RUNYARD_SECRET_ACCESS_KEY"),
        (["tape", "reel=1"], "Known"),
        (["folder", "folder"], "name=value"),
        (["folder", "folder=/does/not/exist"], "/does/not/exist"),
    ],
)
def test_a_datastore_that_cannot_be_is_refused_in_words(shell, petals, arguments, words):
    done = shell("datastores", "add", "odd", *arguments)
    assert done.returncode in (2, 3)
    assert words in done.stderr
    assert "hush" not in done.stderr
