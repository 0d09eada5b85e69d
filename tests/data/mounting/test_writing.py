import errno
import mmap
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.core.errors import AccessDenied, StorageFull, Unreachable
from runyard.data.fuse.remote_names import FRESH_SECONDS
from runyard.data.fuse.writable_tree import WritableTree
from tests.data.mounting.children import in_child
from tests.data.mounting.flaky_store import FlakyStore
from tests.data.mounting.served import Served

Write = Callable[..., tuple[Served, WritableTree]]


@pytest.fixture
def mount(write: Write) -> Path:
    return write()[0].path


def test_what_a_script_has_closed_is_on_the_store(store: FlakyStore, mount: Path) -> None:
    content = os.urandom(2_500_000)
    with open(mount / "model.bin", "wb") as file:
        file.write(content)
        assert "model.bin" not in store.files
    assert store.files == {"model.bin": content}
    assert store.puts == ["model.bin"]


def test_an_empty_file_is_stored_too(store: FlakyStore, mount: Path) -> None:
    (mount / "done").touch()
    assert store.files == {"done": b""}


def test_own_writes_are_read_back_before_and_after_closing(store: FlakyStore, mount: Path) -> None:
    with open(mount / "file", "w+b", buffering=0) as file:
        file.write(b"hello")
        assert os.pread(file.fileno(), 9, 1) == b"ello"
        assert (mount / "file").read_bytes() == b"hello"
    assert (mount / "file").read_bytes() == b"hello"
    assert (mount / "file").stat().st_size == 5
    assert store.reads == []


def test_a_file_of_the_store_is_read_through_the_cache(store: FlakyStore, mount: Path) -> None:
    store.files["folder/file"] = b"content"
    assert (mount / "folder" / "file").read_bytes() == b"content"
    assert store.reads == [("folder/file", 0, 7)]
    assert (mount / "folder" / "file").stat().st_mode & 0o777 == 0o644


def test_a_part_of_a_stored_file_is_overwritten_and_the_rest_stays(store: FlakyStore, mount: Path) -> None:
    store.files["file"] = b"0123456789"
    with open(mount / "file", "r+b") as file:
        file.seek(3)
        file.write(b"abc")
    assert store.files["file"] == b"012abc6789"


def test_appending_goes_behind_what_is_stored(store: FlakyStore, mount: Path) -> None:
    store.files["log"] = b"one\n"
    for line in ("two\n", "three\n"):
        with open(mount / "log", "a") as file:
            file.write(line)
    assert store.files["log"] == b"one\ntwo\nthree\n"


def test_overwriting_does_not_read_what_is_there(store: FlakyStore, mount: Path) -> None:
    store.files["file"] = b"old content"
    (mount / "file").write_bytes(b"new")
    assert store.files["file"] == b"new"
    assert store.reads == []


def test_truncating_without_opening_is_stored_at_once(store: FlakyStore, mount: Path) -> None:
    store.files["file"] = b"0123456789"
    os.truncate(mount / "file", 4)
    assert store.files["file"] == b"0123"
    os.truncate(mount / "file", 6)
    assert store.files["file"] == b"0123\0\0"
    assert (mount / "file").stat().st_size == 6


def test_syncing_stores_before_closing(store: FlakyStore, mount: Path) -> None:
    with open(mount / "file", "wb", buffering=0) as file:
        file.write(b"safe")
        os.fsync(file.fileno())
        assert store.files["file"] == b"safe"
    assert store.puts == ["file"]


def test_a_child_that_inherits_an_open_file_does_not_store_half_of_it(store: FlakyStore, mount: Path) -> None:
    with open(mount / "log", "wb", buffering=0) as file:
        file.write(b"one ")
        in_child(lambda: None)
        assert store.puts == []
        in_child(lambda: file.write(b"two "))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(file.write, b"three").result()
            pool.submit(file.close).result()
    assert store.files == {"log": b"one two three"}


def test_what_is_written_through_memory_is_stored(store: FlakyStore, mount: Path) -> None:
    store.files["file"] = b"." * 10_000

    def child() -> None:
        with open(mount / "file", "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
            pages[5000:5004] = b"here"

    in_child(child)
    os.sync()
    assert store.files["file"] == b"." * 5000 + b"here" + b"." * 4996


def test_making_a_file_that_must_not_exist_fails_when_somebody_else_made_it(store: FlakyStore, mount: Path) -> None:
    os.listdir(mount)  # from here on the mount believes that there is no such file
    store.files["lock"] = b"theirs"
    with pytest.raises(FileExistsError):
        open(mount / "lock", "x").close()
    assert store.files["lock"] == b"theirs"
    open(mount / "free", "x").close()
    assert store.files["free"] == b""


def test_renaming_a_file_moves_it_on_the_store(store: FlakyStore, mount: Path) -> None:
    store.files = {"a/tmp": b"new", "a/final": b"old"}
    os.replace(mount / "a" / "tmp", mount / "a" / "final")
    assert store.files == {"a/final": b"new"}
    assert os.listdir(mount / "a") == ["final"]
    assert (mount / "a" / "final").read_bytes() == b"new"


def test_a_file_that_is_renamed_while_it_is_written_is_stored_under_its_new_name(
    store: FlakyStore, mount: Path
) -> None:
    with open(mount / "part", "wb", buffering=0) as file:
        file.write(b"one ")
        os.rename(mount / "part", mount / "whole")
        file.write(b"two")
    assert store.files == {"whole": b"one two"}


def test_renaming_a_folder_moves_all_that_is_in_it(store: FlakyStore, mount: Path) -> None:
    store.files = {"old/a": b"1", "old/deep/b": b"2", "older": b"3"}
    os.rename(mount / "old", mount / "new")
    assert store.files == {"new/a": b"1", "new/deep/b": b"2", "older": b"3"}
    assert sorted(os.listdir(mount)) == ["new", "older"]
    assert (mount / "new" / "deep" / "b").read_bytes() == b"2"


def test_a_rename_that_fails_half_way_leaves_all_under_the_old_names(store: FlakyStore, write: Write) -> None:
    store.files = {"old/a": b"1", "old/b": b"2"}
    mount, _ = write()
    (mount.path / "old" / "a").read_bytes()
    (mount.path / "old" / "b").read_bytes()
    put = store.put

    def put_one_only(path: str, source: Path, **options: object) -> object:
        store.trouble = Unreachable("No answer.") if store.puts else None
        return put(path, source, **options)  # type: ignore[arg-type]

    store.put = put_one_only  # type: ignore[method-assign, assignment]
    with pytest.raises(OSError, match="timed out"):
        os.rename(mount.path / "old", mount.path / "new")
    store.trouble = None
    assert {path: content for path, content in store.files.items() if path.startswith("old/")} == {
        "old/a": b"1",
        "old/b": b"2",
    }
    assert os.listdir(mount.path / "old") == ["a", "b"]


def test_removing_removes_from_the_store_and_the_folder_stays(store: FlakyStore, mount: Path) -> None:
    store.files = {"folder/only": b"x"}
    (mount / "folder" / "only").unlink()
    assert store.files == {}
    assert os.listdir(mount) == ["folder"]
    (mount / "folder").rmdir()
    assert os.listdir(mount) == []


def test_a_folder_that_holds_something_is_not_removed(store: FlakyStore, mount: Path) -> None:
    store.files = {"folder/file": b"x"}
    with pytest.raises(OSError, match="not empty"):
        (mount / "folder").rmdir()
    shutil.rmtree(mount / "folder")
    assert store.files == {}


def test_an_empty_folder_is_there_until_a_file_makes_it_real(store: FlakyStore, mount: Path) -> None:
    (mount / "a" / "b").mkdir(parents=True)
    assert os.listdir(mount / "a") == ["b"]
    assert store.files == {}
    (mount / "a" / "b" / "file").write_text("x")
    assert store.files == {"a/b/file": b"x"}
    with pytest.raises(FileExistsError):
        (mount / "a").mkdir()


def test_a_removed_file_that_is_still_open_is_not_stored_again(store: FlakyStore, mount: Path) -> None:
    with open(mount / "scratch", "w+b", buffering=0) as file:
        file.write(b"temporary")
        os.unlink(mount / "scratch")
        assert os.pread(file.fileno(), 9, 0) == b"temporary"
    assert store.files == {}


def test_a_mount_of_a_folder_keeps_to_that_folder(store: FlakyStore, write: Write) -> None:
    store.files = {"runs/1/out": b"x", "runs/10/out": b"y", "runs/1x": b"z"}
    mount, _ = write("runs/1")
    assert os.listdir(mount.path) == ["out"]
    (mount.path / "new").write_text("n")
    assert store.files["runs/1/new"] == b"n"


def test_changes_of_others_show_after_a_while(store: FlakyStore, mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.files = {"file": b"first", "gone": b""}
    assert sorted(os.listdir(mount)) == ["file", "gone"]
    assert (mount / "file").read_bytes() == b"first"
    store.files = {"file": b"second, longer", "came": b""}
    assert sorted(os.listdir(mount)) == ["file", "gone"]
    monkeypatch.setattr("runyard.data.fuse.remote_names.FRESH_SECONDS", 0.0)
    assert sorted(os.listdir(mount)) == ["came", "file"]
    with open(mount / "file", "rb") as file:
        assert file.read() == b"second, longer"


def test_names_are_found_without_listing_a_large_store(store: FlakyStore, mount: Path) -> None:
    store.files = {f"folder/{number}": b"x" for number in range(100)}
    assert (mount / "folder" / "42").read_bytes() == b"x"
    assert not (mount / "folder" / "missing").exists()
    assert store.lists == ["folder/", "folder/missing/"]
    assert FRESH_SECONDS > 0


@pytest.mark.parametrize("name", ["with space", "new\nline", "ünï", "-rf", "'\"", "n" * 255])
def test_odd_names_are_written_and_read(name: str, store: FlakyStore, mount: Path) -> None:
    (mount / name).mkdir()
    (mount / name / name).write_text("x")
    assert store.files == {f"{name}/{name}": b"x"}
    assert os.listdir(mount / name) == [name]


@pytest.mark.parametrize(("name", "number"), [("n" * 256, errno.ENAMETOOLONG), ("\udcff", errno.EILSEQ)])
def test_a_name_that_stores_cannot_have_is_refused(name: str, number: int, mount: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(number)):
        (mount / name).write_text("x")
    assert os.listdir(mount) == []


def test_what_a_store_does_not_know_is_refused_or_taken_quietly(store: FlakyStore, mount: Path) -> None:
    (mount / "file").write_text("x")
    for attempt in (os.symlink, os.link):
        with pytest.raises(PermissionError):
            attempt(mount / "file", mount / "other")
    os.chmod(mount / "file", 0o600)
    os.utime(mount / "file", ns=(1_000_000_001, 2_000_000_002))
    facts = (mount / "file").stat()
    assert (facts.st_mode & 0o777, facts.st_mtime_ns) == (0o600, 2_000_000_002)
    assert os.statvfs(mount).f_bavail > 0


def test_objects_whose_names_no_folder_can_show_are_left_out_with_a_line(store: FlakyStore, write: Write) -> None:
    store.files = {"good": b"", "a//b": b"", "c/../d": b"", "n" * 300: b"", "mark/": b""}
    mount, _ = write()
    assert sorted(os.listdir(mount.path)) == ["good", "mark"]
    assert len([line for line in mount.lines if "left out" in line]) == 3


def test_many_threads_write_at_once(store: FlakyStore, mount: Path) -> None:
    contents = {f"{number % 5}/{number}": os.urandom(1000) for number in range(200)}
    for number in range(5):
        (mount / str(number)).mkdir()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda path: (mount / path).write_bytes(contents[path]), contents))
    assert store.files == contents


@pytest.mark.parametrize(
    ("trouble", "number"),
    [
        (Unreachable("No answer."), errno.ETIMEDOUT),
        (AccessDenied("Refused."), errno.EACCES),
        (StorageFull("Full."), errno.ENOSPC),
    ],
)
def test_a_write_that_is_not_stored_fails_on_closing_and_is_lost_when_it_stays_so(
    trouble: Unreachable, number: int, store: FlakyStore, write: Write
) -> None:
    mount, tree = write()
    store.trouble = trouble
    with pytest.raises(OSError, match=os.strerror(number)), open(mount.path / "model", "wb") as file:
        file.write(b"weights")
    assert mount.lines == [f"Writing 'model' failed: {trouble.problem}"]
    tree.finish()
    assert tree.lost() == [f"data: Writing 'model' failed: {trouble.problem}"]
    assert store.files == {}


def test_a_write_that_failed_is_made_good_at_the_end(store: FlakyStore, write: Write) -> None:
    mount, tree = write()
    store.trouble = Unreachable("No answer.")
    with pytest.raises(OSError, match="timed out"):
        (mount.path / "model").write_bytes(b"weights")
    store.trouble = None
    tree.finish()
    assert (tree.lost(), store.files) == ([], {"model": b"weights"})
    assert (tree.written_files, tree.written_bytes) == (1, 7)


def test_after_the_end_nothing_is_written_any_more(store: FlakyStore, write: Write) -> None:
    mount, tree = write()
    with open(mount.path / "open", "wb", buffering=0) as file:
        file.write(b"in time")
        tree.finish()
        assert store.files == {"open": b"in time"}
        with pytest.raises(OSError, match="Read-only"):
            file.write(b"too late")
    with pytest.raises(OSError, match="Read-only"):
        (mount.path / "new").touch()
    assert tree.lost() == []
