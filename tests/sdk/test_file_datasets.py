import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from azureml.core import Dataset, Datastore, Workspace
from azureml.data.dataset_error_handling import DatasetValidationError
from azureml.exceptions import UserErrorException
from runyard_sdk import progress
from tests.mount_tables import mounted_anywhere
from tests.sdk.web_files import WebFiles


@pytest.fixture
def web() -> Iterator[WebFiles]:
    server = WebFiles()
    yield server
    server.close()


@pytest.fixture
def store(workspace, tmp_path):
    """A folder of six files as a datastore."""
    folder = tmp_path / "store"
    for name in ("it/2019/a.csv", "it/2019/b.csv", "it/2020/a.csv", "fr/2019/a.csv", "fr/2020/a.csv", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return Datastore.register_folder(workspace, "files", folder)


def test_one_address_lies_at_its_name_and_several_with_their_host(workspace, web):
    one, two = web.put("/exdb/x.gz", b"x"), web.put("/exdb/y.gz", b"y")
    host = urlsplit(one).netloc.replace(":", "%3A")
    assert Dataset.File.from_files(one).to_path() == ["/x.gz"]
    assert Dataset.File.from_files([one, two]).to_path() == [
        f"/http%3A/%2F{host}/exdb/x.gz",
        f"/http%3A/%2F{host}/exdb/y.gz",
    ]


def test_what_is_not_there_is_an_error_when_the_dataset_is_made(workspace, web, store):
    web.put("/there", b"x")
    missing = web.put("/gone", b"")
    web.files.clear()
    with pytest.raises(DatasetValidationError, match="404"):
        Dataset.File.from_files(missing)
    with pytest.raises(DatasetValidationError, match="validate=False"):
        Dataset.File.from_files((store, "de/**"))
    later = Dataset.File.from_files((store, "de/**"), validate=False)
    (Path(store.folder) / "de").mkdir()
    (Path(store.folder) / "de/x.csv").write_text("x")
    assert later.to_path() == ["/x.csv"]


def test_a_dataset_tells_when_its_newest_file_was_changed(store):
    os.utime(Path(store.folder) / "it/2019/a.csv", (0, 4_000_000_000))
    changed = Dataset.File.from_files((store, "it")).data_changed_time
    assert changed == datetime.fromtimestamp(4_000_000_000, UTC)


def test_globs_choose_files_of_a_datastore(store):
    assert Dataset.File.from_files((store, "it/**/a.csv")).to_path() == ["/2019/a.csv", "/2020/a.csv"]
    assert Dataset.File.from_files((store, "notes.txt")).to_path() == ["/notes.txt"]
    assert len(Dataset.File.from_files([(store, "it"), (store, "fr")]).to_path()) == 5


def test_steps_choose_files_the_same_way_each_time(store):
    made = Dataset.File.from_files((store, "**/*.csv"))
    everything = made.to_path()
    assert made.skip(1).take(2).to_path() == everything[1:3]
    first, second = made.random_split(0.5, seed=3)
    assert first.to_path() == first.to_path()
    assert sorted(first.to_path() + second.to_path()) == everything
    assert made.filter(made.file_metadata("Path").startswith("/it")).to_path() == [
        "/it/2019/a.csv",
        "/it/2019/b.csv",
        "/it/2020/a.csv",
    ]
    assert made.filter(made["Size"] > 10**6).to_path() == []


def test_parts_of_paths_are_keys_to_choose_by(store):
    made = Dataset.File.from_files((store, "**/*.csv"), partition_format="/{country}/{year}/*.csv")
    assert made.partition_keys == ["country", "year"]
    assert made.get_partition_key_values(["country"]) == [{"country": "fr"}, {"country": "it"}]
    chosen = made.filter((made["country"] == "it") & (made["year"] == "2019"))
    assert chosen.to_path() == ["/it/2019/a.csv", "/it/2019/b.csv"]
    saved = chosen.register(chosen._workspace, "italian")
    assert (saved.partition_keys, saved.to_path()) == (["country", "year"], chosen.to_path())


def test_versions_tags_and_names(workspace, store):
    first = Dataset.File.from_files((store, "it")).register(workspace, "my data", "d", tags={"a": 1})
    assert (first.version, first.description, first.tags) == (1, "d", {"a": "1"})
    other = Dataset.File.from_files((store, "fr"))
    with pytest.raises(UserErrorException, match="create_new_version=True"):
        other.register(workspace, "my data")
    assert other.register(workspace, "my data", create_new_version=True).version == 2
    assert Dataset.get_by_name(workspace, "my data").version == 2
    assert Dataset.get_by_id(workspace, first.id).to_path() == first.to_path()
    first.add_tags({"b": "2"}).remove_tags(["a"])
    assert Dataset.get_by_name(workspace, "my data", version=1).tags == {"b": "2"}
    assert list(Dataset.get_all(workspace)) == ["my data"]
    first.unregister_all_versions()
    assert Dataset.get_all(workspace) == {}
    with pytest.raises(UserErrorException, match="my data"):
        Dataset.get_by_name(workspace, "my data")


def test_a_download_brings_every_file_and_leaves_others_alone(store, tmp_path):
    made = Dataset.File.from_files((store, "**"))
    there = made.download(str(tmp_path / "there"))
    assert [Path(path).read_text() for path in there] == [
        str(Path(path).relative_to(tmp_path / "there")) for path in there
    ]
    with pytest.raises(UserErrorException, match="overwrite=True"):
        made.download(str(tmp_path / "there"))
    assert made.download(str(tmp_path / "there"), overwrite=True) == there


def test_a_file_that_went_meanwhile_is_an_error_or_left_out(workspace, store, tmp_path):
    made = Dataset.File.from_files((store, "it/2019")).register(workspace, "going")
    (Path(store.folder) / "it/2019/b.csv").unlink()
    with pytest.warns(UserWarning, match=r"b\.csv"):
        assert [Path(path).name for path in made.download(str(tmp_path / "a"), ignore_not_found=True)] == ["a.csv"]


def test_web_addresses_need_no_workspace(service, web, monkeypatch, own_temporary_folder, tmp_path):
    monkeypatch.setenv("RUNYARD_HOME", service["home"])
    monkeypatch.chdir(tmp_path)
    made = Dataset.File.from_files(web.put("/x.gz", b"content"))
    (path,) = made.download()
    assert Path(path).read_bytes() == b"content"
    other = Workspace.create("elsewhere", exist_ok=True, show_output=False)
    assert made.register(other, "web").to_path() == ["/x.gz"]
    assert Dataset.get_by_id(other, made._saved(other).id).to_path() == ["/x.gz"]


def test_a_mount_is_read_only_and_gone_afterwards(store):
    made = Dataset.File.from_files((store, "it"))
    with made.mount() as mounted:
        place = Path(mounted.mount_point)
        assert os.path.ismount(place)
        assert sorted(path.name for path in place.iterdir()) == ["2019", "2020"]
        assert (place / "2019/a.csv").read_text() == "it/2019/a.csv"
        with pytest.raises(OSError, match="Read-only"):
            (place / "2019/a.csv").write_text("mine")
    assert not place.exists()


def test_a_mount_whose_process_was_killed_can_be_stopped(store, own_temporary_folder):
    context = Dataset.File.from_files((store, "it")).mount()
    context.start()
    place = Path(context.mount_point)
    os.kill(context._mounting._process.pid, signal.SIGKILL)
    context.stop()
    assert not mounted_anywhere(place.parent)
    assert not place.exists()


def test_what_is_read_of_a_mount_for_the_first_time_is_shown(workspace, web, monkeypatch):
    shown = []

    class Recorded(progress.Progress):
        def __exit__(self, *details):
            shown.append((self.title, self.bytes_done, self.size))
            return super().__exit__(*details)

    monkeypatch.setattr(progress, "Progress", Recorded)
    made = Dataset.File.from_files(web.put("/x.bin", bytes(100_000))).register(workspace, "shown")
    with made.mount() as mounted:
        for _ in range(2):
            assert len(Path(mounted.mount_point, "x.bin").read_bytes()) == 100_000
    assert shown == [("shown", 100_000, 100_000)]


def test_a_mount_of_a_service_elsewhere_is_a_download_and_says_so(workspace, store, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(workspace._client, "_shares_files", False)
    context = Dataset.File.from_files((store, "it/2019")).mount(str(tmp_path / "place"))
    context.start()
    assert (tmp_path / "place/a.csv").read_text() == "it/2019/a.csv"
    assert "downloaded to" in capsys.readouterr().err
    context.stop()
    assert list((tmp_path / "place").iterdir()) == []


def test_a_mount_point_must_be_empty(store, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("x")
    with pytest.raises(UserErrorException, match="must be an empty folder"):
        Dataset.File.from_files((store, "it")).mount(str(tmp_path / "full"))


def test_a_path_that_is_no_text_is_shown_as_it_is(store):
    with pytest.raises(UserErrorException, match=r"half of a character.*\\udcff"):
        Dataset.File.from_files((store, "it/\udcff.csv"))


def test_the_signature_of_an_address_is_sent_and_no_part_of_the_files_name(workspace, web, tmp_path):
    made = Dataset.File.from_files(web.put("/x.gz?sig=" + "s" * 600, b"content"))
    assert made.to_path() == ["/x.gz"]
    (path,) = made.download(str(tmp_path / "got"))
    assert Path(path).read_bytes() == b"content"


def test_a_download_goes_through_the_callers_own_proxy(workspace, web, tmp_path, monkeypatch):
    """The service, which was started without one, cannot find the host by itself."""
    web.files["http://files.invalid/far.txt"] = b"from afar"  # a proxy is asked for whole addresses
    proxy = web.put("/", b"").rstrip("/")
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", urlsplit(workspace._client.transport.service.url).netloc)
    dataset = Dataset.File.from_files("http://files.invalid/far.txt")
    (path,) = dataset.download(str(tmp_path / "with"))
    assert Path(path).read_bytes() == b"from afar"
    monkeypatch.delenv("http_proxy")
    with pytest.raises(UserErrorException):
        dataset.download(str(tmp_path / "without"))
