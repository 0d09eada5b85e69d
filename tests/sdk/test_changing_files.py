"""Files that grow, shrink, vanish or are replaced while they are sent, by path and as bytes."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Datastore, Experiment, Model, Run, Workspace
from azureml.exceptions import UserErrorException
from runyard_sdk.client import Client, quoted_path
from tests.sdk.yard import submit

pytestmark = pytest.mark.slow

LARGE = 3 << 20
SCRIPT = "print('sent')"


@pytest.fixture(params=["by path", "as bytes"])
def experiment(request, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """`as bytes`: as a client on another machine sends files."""
    if request.param == "as bytes":
        monkeypatch.setattr(Client, "shares_files", False)
    return Experiment(workspace, "changing")


class Meddler:
    """Changes a file each time that the SDK has hashed files and speaks to the service."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._change: Callable[[], None] | None = None
        self.count = 0
        call = Client._call

        def changed_first(client: Client, method: str, path: str, *rest: Any, **more: Any) -> Any:
            if self._change is not None and method == "POST":
                self.count += 1
                self._change()
            return call(client, method, path, *rest, **more)

        monkeypatch.setattr(Client, "_call", changed_first)

    def __call__(self, change: Callable[[], None]) -> None:
        self._change = change


@pytest.fixture
def meddle(monkeypatch: pytest.MonkeyPatch) -> Meddler:
    return Meddler(monkeypatch)


def _grow(path: Path) -> None:
    with path.open("ab") as sink:
        sink.write(os.urandom(1000))


def _shrink(path: Path) -> None:
    os.truncate(path, max(0, path.stat().st_size - 1000))


def _replace(path: Path) -> None:
    beside = path.with_name(path.name + "~")
    beside.write_bytes(os.urandom(path.stat().st_size + 10))
    beside.replace(path)


@pytest.mark.parametrize("size", [2000, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("change", [_grow, _shrink, _replace])
def test_a_run_whose_files_change_is_submitted_with_what_was_sent(experiment, tmp_path, meddle, change, size):
    source = tmp_path / "source"
    source.mkdir()
    (source / "log.bin").write_bytes(os.urandom(size))
    meddle(lambda: change(source / "log.bin"))
    run = submit(experiment, source, SCRIPT)
    meddle(lambda: None)
    run.cancel()
    entries = {entry[0]: entry for entry in _snapshot(run)}
    content = Client().read("/blobs/" + entries["log.bin"][1])
    assert (hashlib.sha256(content).hexdigest(), len(content)) == tuple(entries["log.bin"][1:3])


def test_a_file_that_is_removed_while_it_is_sent_is_left_out(experiment, tmp_path, meddle):
    source = tmp_path / "source"
    source.mkdir()
    (source / "swap").write_bytes(os.urandom(LARGE))
    meddle(lambda: (source / "swap").unlink(missing_ok=True))
    run = submit(experiment, source, SCRIPT)
    run.cancel()
    assert [entry[0] for entry in _snapshot(run)] == ["train.py"]


def test_a_file_that_is_there_and_gone_each_time_is_named(experiment, tmp_path, meddle):
    source = tmp_path / "source"
    source.mkdir()

    def come_and_go() -> None:
        (source / f"swap{meddle.count - 1}").unlink(missing_ok=True)
        (source / f"swap{meddle.count}").write_bytes(os.urandom(LARGE))

    come_and_go()
    meddle(come_and_go)
    with pytest.raises(UserErrorException, match="swap"):
        submit(experiment, source, SCRIPT)


@pytest.mark.parametrize("change", [_grow, _shrink, _replace])
def test_a_model_whose_file_changes_is_registered_with_what_was_sent(experiment, tmp_path, meddle, change):
    (tmp_path / "net.bin").write_bytes(os.urandom(LARGE))
    meddle(lambda: change(tmp_path / "net.bin"))
    model = Model.register(experiment.workspace, str(tmp_path / "net.bin"), "net")
    meddle(lambda: None)
    assert Path(model.download(str(tmp_path / "down"))).stat().st_size > LARGE - 10_000


def test_a_model_file_that_is_gone_is_named(experiment, tmp_path, meddle):
    (tmp_path / "net.bin").write_bytes(os.urandom(LARGE))
    meddle(lambda: (tmp_path / "net.bin").unlink(missing_ok=True))
    with pytest.raises(Exception, match=r"net\.bin"):
        Model.register(experiment.workspace, str(tmp_path / "net.bin"), "net")


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Path]:
    """A file that another thread writes to all the time."""
    path, done = tmp_path / "growing.bin", threading.Event()
    path.write_bytes(os.urandom(LARGE))

    def write() -> None:
        while not done.wait(0.0005):
            _grow(path)

    writer = threading.Thread(target=write)
    writer.start()
    yield path
    done.set()
    writer.join()


def test_a_file_that_grows_all_the_time_is_sent(experiment, growing, tmp_path):
    start = growing.read_bytes()[:LARGE]
    with experiment.start_logging(snapshot_directory=None) as run:
        run.upload_file("growing.bin", str(growing))
    run.download_file("growing.bin", str(tmp_path / "one"))
    assert (tmp_path / "one").read_bytes()[:LARGE] == start
    store = Datastore.get_default(experiment.workspace)
    store.upload_files([str(growing)], target_path="sent", show_progress=False)
    store.download(str(tmp_path / "store"), "sent", show_progress=False)
    assert (tmp_path / "store" / "sent" / "growing.bin").read_bytes()[:LARGE] == start


def test_a_file_that_is_cut_while_it_goes_to_a_datastore_is_sent_as_it_is_then(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(Client, "shares_files", False)
    path = tmp_path / "cut.bin"
    path.write_bytes(os.urandom(LARGE))
    cuts = iter([LARGE // 2])
    address = quoted_path(f"/workspaces/{workspace.name}/datastores/workspaceblobstore/files/cut.bin")
    Client().upload(address, str(path), on_bytes=lambda _: [os.truncate(path, size) for size in cuts])
    assert Client().read(address) == path.read_bytes()


def test_a_file_that_is_cut_again_and_again_is_named(workspace, tmp_path):
    path = tmp_path / "cut.bin"
    path.write_bytes(os.urandom(LARGE))
    address = quoted_path(f"/workspaces/{workspace.name}/datastores/workspaceblobstore/files/cut.bin")
    with pytest.raises(Exception, match=r"cut\.bin.* became shorter"):
        Client().upload(address, str(path), on_bytes=lambda _: os.truncate(path, path.stat().st_size - 1))


def _snapshot(run: Run) -> list[Any]:
    found: list[Any] = Client().get("/snapshots/" + run.get_snapshot_id())["entries"]
    return found
