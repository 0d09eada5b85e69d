import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.errors import AccessDenied, InvalidArgument, NotFound, RunyardError, SourceChanged, StorageFull
from runyard.core.ports.data import BatchWriter, DataStore
from runyard.core.records.data import NetworkRules, StoreAccess, StoredFile
from runyard.data.datastores import open_store
from runyard.data.datastores.folder_store import FolderStore
from runyard.testing.data_store_suite import DataStoreSuite
from runyard.testing.small_disk import mounted


class TestFolderStore(DataStoreSuite):
    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> DataStore:
        return open_store(StoreAccess("folder", str(tmp_path_factory.mktemp("store"))), NetworkRules())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture
def store(folder: Path) -> FolderStore:
    return FolderStore(folder)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "secret").write_bytes(b"secret")
    return made


def put(store: FolderStore, path: str, source: Path, *, overwrite: bool = True) -> StoredFile:
    return store.put(path, source, overwrite=overwrite, progress=lambda count: None)


def test_a_link_to_a_file_outside_is_refused(store: FolderStore, folder: Path, outside: Path, tmp_path: Path) -> None:
    (folder / "link").symlink_to(outside / "secret")
    for ask in (
        lambda: store.stat("link"),
        lambda: store.read("link", 0, 1),
        lambda: store.fetch(StoredFile("link", None), tmp_path / "fetched", print),
        lambda: list(store.list()),
    ):
        with pytest.raises(AccessDenied, match="'link' is a link that leads out"):
            ask()
    assert not (tmp_path / "fetched").exists()


def test_a_link_to_a_folder_outside_is_refused(store: FolderStore, folder: Path, outside: Path) -> None:
    (folder / "link").symlink_to("../outside")
    for ask in (
        lambda: store.read("link/secret", 0, 1),
        lambda: put(store, "link/planted", outside / "secret"),
        lambda: put(store, "link/deep/planted", outside / "secret"),
        lambda: store.delete("link/secret"),
        lambda: list(store.list("link/")),
        lambda: list(store.list()),
    ):
        with pytest.raises(AccessDenied, match="leads out"):
            ask()
    assert os.listdir(outside) == ["secret"]


def test_files_beside_a_link_that_leads_out_are_still_listed(store: FolderStore, folder: Path, outside: Path) -> None:
    (folder / "link").symlink_to(outside)
    (folder / "good").mkdir()
    (folder / "good" / "file").touch()
    assert [file.path for file in store.list("good/")] == ["good/file"]


def test_links_inside_are_followed(store: FolderStore, folder: Path) -> None:
    (folder / "v1").mkdir()
    (folder / "v1" / "file").write_bytes(b"12345")
    (folder / "current").symlink_to(folder / "v1")
    (folder / "alias").symlink_to("v1/file")
    assert [file.path for file in store.list()] == ["alias", "current/file", "v1/file"]
    assert bytes(store.read("alias", 0, 5)) == bytes(store.read("current/file", 0, 5)) == b"12345"


def test_links_in_a_circle_end(store: FolderStore, folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "file").touch()
    (folder / "a" / "up").symlink_to("..")
    (folder / "self").symlink_to("self")
    listed = [file.path for file in store.list()]
    assert "a/file" in listed
    assert len(listed) < 5
    with pytest.raises(InvalidArgument, match="'self'"):
        store.stat("self")


def test_a_file_put_over_a_link_replaces_the_link(store: FolderStore, folder: Path, outside: Path) -> None:
    (folder / "link").symlink_to(outside / "secret")
    (outside / "new").write_bytes(b"new")
    put(store, "link", outside / "new")
    assert (outside / "secret").read_bytes() == b"secret"
    assert (folder / "link").read_bytes() == b"new"
    assert not (folder / "link").is_symlink()


def test_only_files_are_listed_and_read(store: FolderStore, folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "empty folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        assert list(store.list()) == []
        for name in ("fifo", "socket"):
            with pytest.raises(InvalidArgument, match=f"'{name}'"):
                store.stat(name)
            with pytest.raises(RunyardError, match=f"'{name}'"):
                store.read(name, 0, 1)
    with pytest.raises(NotFound, match="'empty folder'"):
        store.read("empty folder", 0, 1)


def test_a_name_that_is_not_unicode_is_named(store: FolderStore, folder: Path) -> None:
    os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT))
    with pytest.raises(InvalidArgument, match="not valid Unicode"):
        list(store.list())


def test_a_name_that_is_a_file_cannot_be_a_folder(store: FolderStore, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "source").touch()
    put(store, "a/b", tmp_path / "source")
    for path in ("a/b/c", "a/b/c/d", "a"):
        with pytest.raises(InvalidArgument, match=r"folder|file"):
            put(store, path, tmp_path / "source")
    assert [file.path for file in store.list()] == ["a/b"]


def test_a_root_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "share")
    (tmp_path / "source").touch()
    for ask in (lambda: list(store.list()), lambda: store.stat("a"), lambda: put(store, "a/b", tmp_path / "source")):
        with pytest.raises(NotFound, match=r"The folder .*share"):
            ask()
    assert os.listdir(tmp_path) == ["source"]


def test_a_relative_root_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="relative"):
        FolderStore(Path("data"))


@pytest.mark.parametrize("change", ["append", "same size", "touch", "replace"])
def test_a_file_changed_by_anybody_is_noticed(store: FolderStore, folder: Path, tmp_path: Path, change: str) -> None:
    (folder / "a").write_bytes(b"12345")
    seen = store.stat("a")
    before = os.stat(folder / "a")
    if change == "append":
        with (folder / "a").open("ab") as file:
            file.write(b"6")
    elif change == "same size":
        (folder / "a").write_bytes(b"54321")
        os.utime(folder / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "touch":
        os.utime(folder / "a")
    else:
        (tmp_path / "other").write_bytes(b"54321")
        os.rename(tmp_path / "other", folder / "a")
    with pytest.raises(SourceChanged, match="'a'"):
        store.read("a", 0, 5, etag=seen.etag)


def test_many_files_are_put_together(store: FolderStore, tmp_path: Path) -> None:
    assert isinstance(store, BatchWriter)
    items = [(f"{number % 7}/{number}", tmp_path / str(number)) for number in range(300)]
    for path, source in items:
        source.write_text(path)
    counted: list[int] = []
    stored = store.put_many(items, overwrite=False, progress=counted.append)
    assert [file.path for file in stored] == [path for path, _ in items]
    assert all(store.stat(file.path) == file for file in stored)
    assert sum(counted) == sum(len(path) for path, _ in items)
    assert bytes(store.read("3/10", 0, 4)) == b"3/10"


def test_one_bad_path_among_many_stores_none_of_them(store: FolderStore, tmp_path: Path) -> None:
    (tmp_path / "source").touch()
    with pytest.raises(InvalidArgument, match=r"\.\./up"):
        store.put_many([("good", tmp_path / "source"), ("../up", tmp_path / "source")], overwrite=True, progress=print)
    assert list(store.list()) == []


def test_a_disk_that_fills_during_put_keeps_what_was_there(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", megabytes=4) as disk:
        store = FolderStore(disk)
        (tmp_path / "small").write_bytes(b"old")
        (tmp_path / "large").write_bytes(bytes(8 << 20))
        put(store, "model", tmp_path / "small")
        with pytest.raises(StorageFull, match="disk"):
            put(store, "model", tmp_path / "large")
        assert [(file.path, file.size) for file in store.list()] == [("model", 3)]
        assert os.listdir(disk) == ["model"]
        put(store, "other", tmp_path / "small")


def test_a_disk_that_fills_during_fetch_leaves_no_part(store: FolderStore, folder: Path, tmp_path: Path) -> None:
    (folder / "large").write_bytes(bytes(8 << 20))
    with mounted(tmp_path / "disk", megabytes=4) as disk:
        with pytest.raises(StorageFull, match="disk"):
            store.fetch(store.stat("large"), disk / "large", lambda count: None)
        assert os.listdir(disk) == []


KILLED_WHILE_PUTTING = """
import os, signal, sys
from pathlib import Path
from runyard.data.datastores.folder_store import FolderStore
def die(count): os.kill(os.getpid(), signal.SIGKILL)
FolderStore(Path(sys.argv[1])).put("model", Path(sys.argv[2]), overwrite=True, progress=die)
"""


def test_a_killed_writer_leaves_nothing_behind(store: FolderStore, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(1 << 20))
    command = [sys.executable, "-c", KILLED_WHILE_PUTTING, str(folder), str(tmp_path / "source")]
    assert subprocess.run(command, check=False).returncode == -9
    assert os.listdir(folder) == []


def test_what_a_killed_writer_left_on_a_simpler_file_system_is_not_listed(store: FolderStore, folder: Path) -> None:
    (folder / f".runyard-{'a' * 32}.part").write_bytes(b"half")
    (folder / ".hidden").touch()
    assert [file.path for file in store.list()] == [".hidden"]


def test_folders_need_neither_obstore_nor_ssl() -> None:
    check = "import sys, runyard.data.datastores; sys.exit(bool({'obstore', 'ssl'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
