"""Data of a service on another machine: nothing of its disk is seen here, so all comes through it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import RUNYARD, Shell
from tests.forked_processes import ForkServer
from tests.open_service import OpenService, serving_outside

FILES = {f"{number}.txt": str(number) * (number + 1) for number in range(5)} | {"deep/large.bin": "x" * (9 << 20)}


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenService]:
    """With a dataset `petals` on its own disk."""
    with serving_outside(tmp_path_factory.mktemp("far")) as served:
        owner = served.owner
        owner.put("/workspaces/default", {"exist_ok": True})
        for path, text in FILES.items():
            owner.put(f"/workspaces/default/datastores/workspaceblobstore/files/petals/{path}", text.encode())
        body = {"type": "file", "sources": [{"datastore": "workspaceblobstore", "path": "petals"}]}
        owner.post("/workspaces/default/datasets", {"name": "petals", "body": body})
        yield served


@pytest.fixture
def here(far: OpenService, tmp_path: Path, fork_server: ForkServer) -> Shell:
    """A user of that service, with a home of their own that no service runs in."""
    shell = Shell(tmp_path / "home", tmp_path, fork_server)
    shell.variables |= {
        "RUNYARD_URL": far.url,
        "RUNYARD_TOKEN": far.facts["token"],
        "RUNYARD_CA": str(far.certificate.authority),
    }
    return shell


def test_a_dataset_is_downloaded(here, tmp_path):
    done = here("data", "download", "petals", "--target", tmp_path / "got")
    assert done.returncode == 0, done.stderr
    got = {str(file.relative_to(tmp_path / "got")): file.read_text() for file in (tmp_path / "got").rglob("*.*")}
    assert got == FILES


def test_a_dataset_is_mounted(here, tmp_path):
    place = tmp_path / "mounted"
    command = [str(RUNYARD), "data", "mount", "petals", str(place), "-o", "json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=here.variables, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        assert json.loads(process.stdout.readline())["mounted"] == str(place)
        try:
            assert (place / "4.txt").read_text() == FILES["4.txt"]
            assert (place / "deep" / "large.bin").read_text() == FILES["deep/large.bin"]
        finally:
            process.stdin.close()
        assert process.wait(30) == 0
    assert not os.path.ismount(place)


def test_files_are_uploaded_by_their_bytes(here, far, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    done = here("data", "upload", tmp_path / "a.txt", "letters")
    assert done.returncode == 0, done.stderr
    stored = far.home / "datastores" / "default" / "workspaceblobstore" / "letters" / "a.txt"
    assert stored.read_text() == "a"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"RUNYARD_CA": ""}, "Set RUNYARD_CA"),
        ({"RUNYARD_CA": "/not/there"}, "RUNYARD_CA is '/not/there'"),
        ({"RUNYARD_TOKEN": "wrong"}, "token"),
        ({"RUNYARD_TOKEN": ""}, "RUNYARD_TOKEN"),
        ({"RUNYARD_URL": "train.example"}, "is not the address"),
    ],
)
def test_what_is_wrong_with_the_way_there_is_said_in_one_line(here, changes, words):
    here.variables |= changes
    done = here("data", "list")
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert words in line


def test_another_name_of_the_service_is_not_believed(here, far):
    here.variables["RUNYARD_URL"] = far.url.replace("127.0.0.1", "localhost")
    assert "is not trusted" in here("data", "list").stderr
