import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from runyard.errors import DataFailed, InvalidArgument
from runyard.model.plan import DataItem
from runyard.node.data import DataCache, bring
from tests.environments.web_server import WebServer

BIG = os.urandom(3 * 1024 * 1024)


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer()
    server.pages = {"/mnist/a.gz": b"first", "/mnist/b.gz": b"second", "/big": BIG}
    yield server
    server.close()


@pytest.fixture
def cache(tmp_path: Path) -> DataCache:
    return DataCache(tmp_path / "data-cache")


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    (tmp_path / "attempt" / "work").mkdir(parents=True)
    return tmp_path / "attempt"


def _web(*urls: str, mode: str = "mount", name: str = "mnist") -> DataItem:
    return DataItem(name, mode, f"DatasetConsumptionConfig:{name}", {"urls": list(urls)})


def _unheard(line: str) -> None:
    pass


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_one_address_that_is_mounted_is_given_as_the_file(server, cache, attempt):
    path = bring(_web(f"{server.url}/mnist/a.gz"), attempt, cache, {}, _unheard)
    assert path == attempt / "data/mnist/a.gz"
    assert path.read_bytes() == b"first"
    assert _mode(path) == 0o444


def test_one_address_that_is_downloaded_is_given_as_its_folder_and_may_be_changed(server, cache, attempt):
    path = bring(_web(f"{server.url}/mnist/a.gz", mode="download"), attempt, cache, {}, _unheard)
    assert path == attempt / "data/mnist"
    assert _mode(path / "a.gz") == 0o644


def test_several_addresses_keep_scheme_host_and_path(server, cache, attempt):
    path = bring(_web(f"{server.url}/mnist/a.gz", f"{server.url}/mnist/b.gz"), attempt, cache, {}, _unheard)
    host = quote(server.url.removeprefix("http://"), safe="")
    assert (path / f"http%3A/%2F{host}/mnist/b.gz").read_bytes() == b"second"
    assert sorted(file.name for file in path.glob("**/*.gz")) == ["a.gz", "b.gz"]


def test_an_address_is_fetched_once_for_all_runs(server, cache, tmp_path):
    for run in ("one", "two"):
        bring(_web(f"{server.url}/mnist/a.gz"), tmp_path / run, cache, {}, _unheard)
    assert server.bodies_sent("/mnist/a.gz") == 1


def test_runs_that_start_at_once_fetch_once(server, cache, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        runs = [tmp_path / str(number) for number in range(4)]
        paths = list(pool.map(lambda run: bring(_web(f"{server.url}/big"), run, cache, {}, _unheard), runs))
    assert all(path.read_bytes() == BIG for path in paths)
    assert server.bodies_sent("/big") == 1


def test_a_newer_version_on_the_server_is_taken(server, cache, tmp_path):
    url = f"{server.url}/mnist/a.gz"
    server.tags["/mnist/a.gz"] = '"1"'
    before = bring(_web(url), tmp_path / "one", cache, {}, _unheard)
    server.pages["/mnist/a.gz"], server.tags["/mnist/a.gz"] = b"changed", '"2"'
    assert bring(_web(url), tmp_path / "two", cache, {}, _unheard).read_bytes() == b"changed"
    assert before.read_bytes() == b"first"


def test_the_copy_fetched_before_serves_when_the_server_does_not(server, cache, tmp_path):
    url = f"{server.url}/mnist/a.gz"
    server.tags["/mnist/a.gz"] = '"1"'
    bring(_web(url), tmp_path / "one", cache, {}, _unheard)
    server.answers["/mnist/a.gz"] = 503
    said: list[str] = []
    assert bring(_web(url), tmp_path / "two", cache, {}, said.append).read_bytes() == b"first"
    assert any("The copy fetched before is used" in line for line in said)


def test_a_broken_transfer_is_taken_up_where_it_broke(server, cache, attempt):
    server.tags["/big"] = '"1"'
    server.cuts["/big"] = [1_000_000]
    assert bring(_web(f"{server.url}/big"), attempt, cache, {}, _unheard).read_bytes() == BIG
    assert [asked for _, asked in server.asked] == ["", "bytes=1000000-"]


def test_a_broken_transfer_without_a_tag_begins_again(server, cache, attempt):
    server.cuts["/big"] = [1_000_000]
    assert bring(_web(f"{server.url}/big"), attempt, cache, {}, _unheard).read_bytes() == BIG
    assert [asked for _, asked in server.asked] == ["", ""]


def test_after_three_broken_transfers_the_address_is_named(server, cache, attempt):
    server.cuts["/big"] = [10, 10, 10]
    with pytest.raises(DataFailed, match=f"{server.url}/big could not be fetched: .* after 10 of {len(BIG)} bytes"):
        bring(_web(f"{server.url}/big"), attempt, cache, {}, _unheard)
    assert server.bodies_sent("/big") == 3


def test_an_address_that_is_not_there_is_asked_once_and_named(server, cache, attempt):
    with pytest.raises(DataFailed, match="/gone could not be fetched: the server answers 404"):
        bring(_web(f"{server.url}/gone"), attempt, cache, {}, _unheard)
    assert server.bodies_sent("/gone") == 1


def test_the_query_of_an_address_is_sent_but_never_told(server, cache, attempt):
    said: list[str] = []
    bring(_web(f"{server.url}/mnist/a.gz?sig=secret"), attempt, cache, {}, said.append)
    assert server.asked[0][0].endswith("?sig=secret")
    with pytest.raises(DataFailed) as failure:
        bring(_web(f"{server.url}/gone?sig=secret", name="gone"), attempt, cache, {}, said.append)
    assert "secret" not in " ".join([*said, str(failure.value)])


def test_a_server_that_does_not_listen_is_named(server, cache, attempt):
    server.close()
    with pytest.raises(DataFailed, match="Connection refused"):
        bring(_web(f"{server.url}/mnist/a.gz"), attempt, cache, {}, _unheard)


def test_a_redirect_is_followed_on_the_web_alone(server, cache, attempt):
    server.redirects = {"/here": f"{server.url}/mnist/a.gz", "/file": "file:///etc/passwd", "/loop": "/loop"}
    assert bring(_web(f"{server.url}/here"), attempt, cache, {}, _unheard).read_bytes() == b"first"
    for path in ("/file", "/loop"):
        with pytest.raises(DataFailed, match=path):
            bring(_web(server.url + path, name="other"), attempt, cache, {}, _unheard)


def test_the_proxy_of_the_submitter_is_asked(server, cache, attempt, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "*")
    path = bring(_web("http://data.example/mnist/a.gz"), attempt, cache, {"http_proxy": server.url}, _unheard)
    assert path.read_bytes() == b"first"
    assert server.asked[0][0] == "http://data.example/mnist/a.gz"


def test_no_proxy_of_the_submitter_is_honoured(server, cache, attempt):
    variables = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}
    assert bring(_web(f"{server.url}/mnist/a.gz"), attempt, cache, variables, _unheard).read_bytes() == b"first"


def test_a_cached_file_that_was_changed_is_fetched_again(server, cache, tmp_path):
    bring(_web(f"{server.url}/big"), tmp_path / "one", cache, {}, _unheard)
    (content,) = (tmp_path / "data-cache").glob("*/content")
    content.chmod(0o644)
    content.write_bytes(bytes(len(BIG)))
    assert bring(_web(f"{server.url}/big"), tmp_path / "two", cache, {}, _unheard).read_bytes() == BIG


def test_the_cache_stays_within_its_bound_and_runs_keep_their_files(server, tmp_path):
    cache = DataCache(tmp_path / "data-cache", limit_bytes=len(BIG) + 10)
    first = bring(_web(f"{server.url}/big"), tmp_path / "one", cache, {}, _unheard)
    server.pages["/next"] = bytes(11)
    said: list[str] = []
    bring(_web(f"{server.url}/next"), tmp_path / "two", cache, {}, said.append)
    assert f"{server.url}/big was dropped from the data cache to make room." in said
    assert first.read_bytes() == BIG
    assert [file.stat().st_size for file in (tmp_path / "data-cache").glob("*/content")] == [11]


def test_the_bound_of_the_cache_is_a_setting(server, cache, attempt, monkeypatch):
    monkeypatch.setenv("RUNYARD_DATA_CACHE_BYTES", "3")
    assert bring(_web(f"{server.url}/mnist/a.gz"), attempt, cache, {}, _unheard).read_bytes() == b"first"
    assert not list((attempt.parent / "data-cache").glob("*/content"))
    monkeypatch.setenv("RUNYARD_DATA_CACHE_BYTES", "lots")
    with pytest.raises(InvalidArgument, match="RUNYARD_DATA_CACHE_BYTES is 'lots'"):
        bring(_web(f"{server.url}/mnist/a.gz"), attempt, cache, {}, _unheard)


def test_what_a_killed_fetch_left_is_no_hindrance(server, cache, tmp_path):
    bring(_web(f"{server.url}/mnist/a.gz"), tmp_path / "one", cache, {}, _unheard)
    (content,) = (tmp_path / "data-cache").glob("*/content")
    content.rename(content.with_name("partial"))
    assert bring(_web(f"{server.url}/mnist/a.gz"), tmp_path / "two", cache, {}, _unheard).read_bytes() == b"first"


def test_bringing_twice_is_harmless(server, cache, attempt):
    item = _web(f"{server.url}/mnist/a.gz", f"{server.url}/mnist/b.gz")
    assert bring(item, attempt, cache, {}, _unheard) == bring(item, attempt, cache, {}, _unheard)


@pytest.fixture
def datastore(tmp_path: Path) -> Path:
    store = tmp_path / "datastores" / "blobs"
    for name in ("mnist/train/a.gz", "mnist/test/b.gz", "notes.txt"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_text(name)
    return store


def _chosen(store: Path, *patterns: str, mode: str = "mount", on: str | None = None) -> DataItem:
    return DataItem("mnist", mode, "", {"files": [["blobs", str(store), pattern] for pattern in patterns]}, (), on)


def _relative(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("patterns", "files"),
    [
        (["mnist"], ["test/b.gz", "train/a.gz"]),
        (["mnist/**"], ["test/b.gz", "train/a.gz"]),
        (["mnist/*/a.gz"], ["train/a.gz"]),
        (["**/*.gz"], ["mnist/test/b.gz", "mnist/train/a.gz"]),
        (["mnist/train", "notes.txt"], ["blobs/mnist/train/a.gz", "blobs/notes.txt"]),
    ],
)
def test_a_dataset_on_a_datastore_is_laid_out_below_its_source(patterns, files, datastore, attempt, cache):
    root = bring(_chosen(datastore, *patterns), attempt, cache, {}, _unheard)
    assert _relative(root) == files
    assert {_mode(root / file) for file in files} == {0o444}


def test_one_file_of_a_datastore_that_is_mounted_is_given_as_the_file(datastore, attempt, cache):
    path = bring(_chosen(datastore, "mnist/train/a.gz"), attempt, cache, {}, _unheard)
    assert (path.name, path.read_text()) == ("a.gz", "mnist/train/a.gz")


def test_writing_into_a_mounted_dataset_leaves_the_datastore_alone(datastore, attempt, cache):
    path = bring(_chosen(datastore, "notes.txt"), attempt, cache, {}, _unheard)
    path.chmod(0o644)
    path.write_text("mine")
    assert (datastore / "notes.txt").read_text() == "notes.txt"


def test_nothing_at_a_path_is_said(datastore, attempt, cache):
    with pytest.raises(DataFailed, match=r"nothing at 'absent/\*' in datastore 'blobs'"):
        bring(_chosen(datastore, "absent/*"), attempt, cache, {}, _unheard)


def test_path_on_compute_lies_in_the_working_folder(datastore, attempt, cache):
    root = bring(_chosen(datastore, "mnist", mode="download", on="input"), attempt, cache, {}, _unheard)
    assert root == attempt / "work/input"
    assert _relative(root) == ["test/b.gz", "train/a.gz"]


@pytest.mark.parametrize("mode", ["mount", "download"])
def test_a_path_on_compute_outside_of_the_run_is_not_made_and_that_is_said(datastore, attempt, cache, tmp_path, mode):
    wanted, said = tmp_path / "elsewhere", list[str]()
    root = bring(_chosen(datastore, "mnist", mode=mode, on=str(wanted)), attempt, cache, {}, said.append)
    assert root == attempt / "data/mnist"
    assert not wanted.exists()
    assert [str(wanted) in line and str(root) in line for line in said] == [True]


def _reference(store: Path, mode: str, path: str = "mnist", on: str | None = None) -> DataItem:
    source = {"folder": str(store), "path": path, "datastore": "blobs"}
    return DataItem("ref", mode, "$AZUREML_DATAREFERENCE_ref", source, (), on)


def test_a_mounted_reference_is_the_folder_itself(datastore, attempt, cache):
    assert bring(_reference(datastore, "mount"), attempt, cache, {}, _unheard) == datastore / "mnist"


def test_a_downloaded_reference_is_a_copy_below_the_working_folder(datastore, attempt, cache):
    path = bring(_reference(datastore, "download"), attempt, cache, {}, _unheard)
    assert path == attempt / "work/blobs/mnist"
    (path / "train/a.gz").write_text("mine")
    assert (datastore / "mnist/train/a.gz").read_text() == "mnist/train/a.gz"


def test_what_is_written_to_an_upload_reference_reaches_the_datastore(datastore, attempt, cache):
    bring(_reference(datastore, "upload", "results", on="out"), attempt, cache, {}, _unheard)
    (attempt / "work/out/model.txt").write_text("trained")
    assert (datastore / "results/model.txt").read_text() == "trained"
