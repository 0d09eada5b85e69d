"""Data on an object store in whole runs: read, written and uploaded."""

import os
import signal
from pathlib import Path

import pytest

from runyard.core.errors import Json
from runyard.core.ports.data import DataStore
from runyard.core.records.data import DataForAttempt, DatasetFiles, NetworkRules, SourceFile, StoreAccess
from runyard.data.datastores.factory import open_store
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import driver_log, pid_from
from tests.node.data.conftest import dataset, output, reference, run
from tests.node.data.test_served_data import agent_without_fuse, let_go, mount_process
from tests.servers.fixtures import s3_access, s3_server
from tests.servers.s3_server import BUCKET, S3Server

pytestmark = pytest.mark.servers
__all__ = ["agent_without_fuse", "s3_access", "s3_server"]
WRITES_WHEN_TOLD = """
import os, sys, time
print('script=%d' % os.getpid(), flush=True)
while not os.path.exists('go'): time.sleep(0.01)
"""

LEAVES_OPEN = """
import os, sys, time
file = open(sys.argv[1] + '/model', 'w')
file.write('abc')
file.flush()
print('script=%d' % os.getpid(), flush=True)
while not os.path.exists('go'): time.sleep(0.01)
os._exit(0)
"""


@pytest.fixture
def bucket(s3_access: StoreAccess, service, tmp_path: Path) -> DataStore:
    """The datastore 'blobs' of the runs: an empty place of an S3 server, with one file in it."""
    rules = NetworkRules(retry_seconds=2)
    service.data = DataForAttempt({}, {"blobs": s3_access}, rules)
    store = open_store(s3_access, rules)
    put(store, "mnist/a.gz", b"first", tmp_path)
    return store


def put(store: DataStore, path: str, content: bytes, folder: Path) -> None:
    (folder / "put").write_bytes(content)
    store.put(path, folder / "put", overwrite=True, progress=lambda count: None)


def content_of(store: DataStore) -> dict[str, bytes]:
    return {file.path: bytes(store.read(file.path, 0, file.size or 0)) for file in store.list()}


def as_dataset(store: DataStore, **fields) -> DatasetFiles:
    files = [SourceFile(f.path.rpartition("/")[2], "blobs", f.path, f.size, f.etag) for f in store.list("mnist/")]
    return DatasetFiles(files, is_one_file=False, **fields)


@pytest.mark.parametrize("mode", ["mount", "download"])
def test_a_dataset_is_read(submit, service, bucket, mode):
    service.data = DataForAttempt({"mnist": as_dataset(bucket)}, service.data.stores, service.data.network)
    run(submit, service, "import sys; print(open(sys.argv[1] + '/a.gz').read())", dataset(mode=mode))
    assert driver_log(service) == "first\n"


def test_what_is_written_to_a_mounted_reference_is_there_when_the_run_has_ended(submit, service, bucket):
    script = "import sys; print(open(sys.argv[1] + '/a.gz').read()); open(sys.argv[1] + '/new', 'w').write('x' * 100)"
    assert run(submit, service, script, reference("mount", "mnist"))["outcome"] == "completed"
    assert driver_log(service) == "first\n"
    assert content_of(bucket) == {"mnist/a.gz": b"first", "mnist/new": b"x" * 100}


def test_a_file_that_the_script_left_open_is_written_before_the_run_ends(submit, service, bucket):
    script = "import os, sys; f = open(sys.argv[1] + '/new', 'w'); f.write('y'); f.flush(); os._exit(0)"
    assert run(submit, service, script, reference("mount", "mnist"))["outcome"] == "completed"
    assert content_of(bucket)["mnist/new"] == b"y"


@pytest.mark.parametrize("mode", ["mount", "upload"])
def test_an_output_is_written_and_told(submit, service, bucket, mode):
    script = "import os, sys; open(os.path.join(sys.argv[1], 'model'), 'w').write('abc')"
    assert run(submit, service, script, output(mode, "made/here"))["outcome"] == "completed"
    assert content_of(bucket)["made/here/model"] == b"abc"
    assert service.outputs == [{"name": "result", "files": 1, "bytes": 3, "registers": True}]


def test_without_fuse_a_mounted_reference_is_fetched_and_what_changed_is_uploaded(
    agent_without_fuse, submit, service, bucket, tmp_path
):
    put(bucket, "mnist/b.gz", b"second", tmp_path)
    before = {file.path: file.etag for file in bucket.list()}
    script = "import sys; open(sys.argv[1] + '/a.gz', 'w').write('other'); open(sys.argv[1] + '/new', 'w').write('x')"
    assert len(run(submit, service, script, reference("mount", "mnist"))["warnings"]) == 1
    assert content_of(bucket) == {"mnist/a.gz": b"other", "mnist/b.gz": b"second", "mnist/new": b"x"}
    assert {file.path: file.etag for file in bucket.list()}["mnist/b.gz"] == before["mnist/b.gz"]


def test_without_fuse_a_mounted_output_is_uploaded(agent_without_fuse, submit, service, bucket):
    run(submit, service, "import sys; open(sys.argv[1] + '/m', 'w').write('abc')", output("mount"))
    assert content_of(bucket)["out/m"] == b"abc"
    assert service.outputs == [{"name": "result", "files": 1, "bytes": 3, "registers": True}]


def test_wrong_credentials_fail_the_run_and_are_not_told(submit, service, bucket, s3_access):
    secrets = {**s3_access.secrets, "secret_access_key": "hush-hush"}
    wrong = StoreAccess("s3", s3_access.root, s3_access.options, secrets)
    service.data = DataForAttempt({}, {"blobs": wrong}, service.data.network)
    ended = run(submit, service, "pass", reference("download", "mnist"))
    assert "Data reference 'ref'" in ended["error"]["message"]
    assert ended["phase"] == "Preparing"
    assert "hush-hush" not in str(service.reports) + str(service.logs)


def test_an_upload_that_is_refused_fails_the_run(submit, service, bucket, s3_access):
    wrong = StoreAccess("s3", "no-such-bucket", s3_access.options, s3_access.secrets)
    service.data = DataForAttempt({}, {"blobs": wrong}, service.data.network)
    script = "open('out/m', 'w').write('abc')"
    ended = run(submit, service, script, reference("upload", "x", path_on_compute="out"))
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 0)
    assert "could not be uploaded. Data reference 'ref': " in ended["error"]["message"]


def test_a_mount_process_that_is_killed_fails_a_run_that_may_have_written(submit, service, bucket, home):
    submit(WRITES_WHEN_TOLD, data=(output("mount"),))
    pid_from(service, "script")
    os.kill(mount_process(home), signal.SIGKILL)
    let_go(home)
    ended = service.ended()
    assert ended["outcome"] == "failed"
    assert "What the script wrote to result may be lost." in ended["error"]["message"]


def test_writes_that_are_lost_fail_the_run(submit, service, home, tmp_path):
    server = S3Server(tmp_path / "s3", checks_signatures=False)
    (tmp_path / "s3").mkdir()
    server.start()
    keys = {"access_key_id": server.key_id, "secret_access_key": server.key}
    access = StoreAccess("s3", BUCKET, {"endpoint": server.endpoint}, keys)
    service.data = DataForAttempt({}, {"blobs": access}, NetworkRules(retry_seconds=1))
    try:
        submit(LEAVES_OPEN, output("mount").placeholder, data=(output("mount"),))
        pid_from(service, "script")
    finally:
        server.kill()
    let_go(home)
    ended = service.ended(seconds=60)
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 0)
    assert "Not everything that the script wrote has reached its datastore." in ended["error"]["message"]
    assert "model" in ended["error"]["message"]


def test_a_supervisor_killed_while_it_uploads_is_followed_by_one_that_goes_on(submit, service, bucket, home):
    item = reference("upload", "x", path_on_compute="out")
    submit(WRITES_WHEN_TOLD + "open('out/m', 'w').write('abc')", data=(item,))
    pid_from(service, "script")
    service.refuses_with = 503
    let_go(home)
    folder = TaskFolder(home, "run1.1")
    service.wait_for(lambda: folder.read("script-end.json"))
    os.kill(folder.supervisor().pid, signal.SIGKILL)
    service.refuses_with = None
    assert service.ended()["outcome"] == "completed"
    assert content_of(bucket)["x/m"] == b"abc"


def test_no_credential_lies_in_a_file_of_the_attempt(submit, service, bucket, home, s3_access):
    submit(WRITES_WHEN_TOLD, data=(reference("mount", "mnist"),))
    pid_from(service, "script")
    secret = s3_access.secrets["secret_access_key"].encode()
    files = [file for file in home.rglob("*") if file.is_file() and not file.is_relative_to(home / "mounts")]
    assert [file for file in files if secret in file.read_bytes()] == []
    pids = [mount_process(home), TaskFolder(home, "run1.1").supervisor().pid]
    words = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for pid in pids for name in ("cmdline", "environ"))
    assert secret not in words
    let_go(home)
    ended: Json = service.ended()
    assert ended["outcome"] == "completed"
