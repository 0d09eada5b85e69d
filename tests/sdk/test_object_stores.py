"""Buckets and containers on real servers, as the SDK registers and uses them."""

from pathlib import Path

import pytest

from azureml.core import Dataset, Datastore
from azureml.exceptions import UserErrorException
from tests.sdk.yard import submit
from tests.servers.azurite_server import ACCOUNT
from tests.servers.fixtures import azurite, azurite_access, s3_access, s3_server  # noqa: F401

pytestmark = pytest.mark.servers


def blob_container(workspace, name, access, **settings):
    return Datastore.register_azure_blob_container(
        workspace, name, access.root, ACCOUNT, endpoint=access.options["endpoint"], **settings
    )


@pytest.fixture(params=["azurite_access", "s3_access"])
def store(request, workspace):
    access = request.getfixturevalue(request.param)
    if access.kind == "azure":
        return blob_container(workspace, "remote", access, account_key=access.secrets["account_key"])
    bucket, _, prefix = access.root.partition("/")
    return Datastore.register_s3_bucket(
        workspace, "remote", bucket, prefix=prefix, endpoint=access.options["endpoint"], **access.secrets
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "data"
    (made / "deep").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt", "deep/ü.txt"):
        (made / name).write_text(name)
    return made


def test_files_go_there_and_come_back(store, folder, tmp_path, capsys):
    store.upload(str(folder), "up")
    assert capsys.readouterr().out.splitlines()[-1] == "Uploaded 3 files"
    store.upload(str(folder), "up")
    assert capsys.readouterr().out.splitlines()[-1] == "Uploaded 0 files"
    assert store.download(str(tmp_path / "back"), show_progress=False) == 3
    assert (tmp_path / "back/up/deep/ü.txt").read_text() == "deep/ü.txt"


SCRIPT = """
import os, sys
mounted, written, sent = sys.argv[1:]
assert sorted(os.listdir(mounted)) == ["a.txt", "deep"] and open(os.path.join(mounted, "a.txt")).read() == "a.txt"
for place in (written, sent):
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "out.txt"), "w") as sink:
        sink.write("out")
"""


def test_a_run_reads_and_writes_it(store, folder, experiment, tmp_path):
    dataset = Dataset.File.upload_directory(str(folder), (store, "in"), show_progress=False)
    given = [
        dataset.as_named_input("mounted").as_mount(),
        store.path("written", "written").as_mount(),
        store.path("sent", "sent").as_upload(),
    ]
    submit(experiment, tmp_path / "source", SCRIPT, *given).wait_for_completion()
    assert [file["path"] for file in store._files("written") + store._files("sent")] == [
        "written/out.txt",
        "sent/out.txt",
    ]


def test_a_dataset_of_it_is_mounted_by_a_notebook(store, folder):
    dataset = Dataset.File.upload_directory(str(folder), (store, "in"), show_progress=False)
    with dataset.mount() as mounted:
        assert (Path(mounted.mount_point) / "deep/b.txt").read_text() == "deep/b.txt"


def test_wrong_credentials_and_absent_containers_are_named_and_no_key_is_told(workspace, azurite_access):  # noqa: F811
    wrong = "d3Jvbmc" + "g" * 80 + "=="
    with pytest.raises(UserErrorException) as refused:
        blob_container(workspace, "wrong", azurite_access, account_key=wrong)
    assert wrong not in str(refused.value)
    key = azurite_access.secrets["account_key"]
    with pytest.raises(UserErrorException, match="absent"):
        Datastore.register_azure_blob_container(
            workspace, "gone", "absent", ACCOUNT, account_key=key, endpoint=azurite_access.options["endpoint"]
        )
    made = blob_container(workspace, "right", azurite_access, account_key=key)
    assert (Datastore.get(workspace, "right").account_key, key in repr(vars(made))) == (key, False)
