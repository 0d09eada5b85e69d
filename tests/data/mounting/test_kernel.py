import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.data.fuse import kernel
from tests.data.mounting.children import NOBODY, in_child


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "file").write_text("content")
    return folder


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "mounts"
    assert kernel.sweep(tmp_path / "mounts") == []


def test_this_machine_has_fuse() -> None:
    assert kernel.why_no_fuse() == ""


def test_a_bound_folder_is_read_only_and_its_source_is_not(source: Path, mounts: Path) -> None:
    kernel.bind(source, mounts / "data", read_only=True)
    assert (mounts / "data" / "file").read_text() == "content"
    with pytest.raises(OSError, match="Read-only"):
        (mounts / "data" / "other").touch()
    (source / "other").touch()
    assert (mounts / "data" / "other").exists()


def test_a_writable_bind_writes_to_its_source(source: Path, mounts: Path) -> None:
    kernel.bind(source, mounts / "data", read_only=False)
    (mounts / "data" / "made").write_text("through")
    assert (source / "made").read_text() == "through"


def test_a_bound_file_shows_where_nothing_was(source: Path, mounts: Path) -> None:
    kernel.bind(source / "file", mounts / "deep" / "name", read_only=True)
    assert (mounts / "deep" / "name").read_text() == "content"
    with pytest.raises(OSError, match="Read-only"):
        (mounts / "deep" / "name").write_text("other")


def test_what_is_mounted_below_a_bound_folder_is_read_only_too_and_outlives_it(source: Path, mounts: Path) -> None:
    (source / "disk").mkdir()
    kernel.mount("tmpfs", source / "disk", "tmpfs", 0, "size=1m")
    try:
        (source / "disk" / "inner").write_text("kept")
        kernel.bind(source, mounts / "data", read_only=True)
        with pytest.raises(OSError, match="Read-only"):
            (mounts / "data" / "disk" / "inner").write_text("changed")
        assert kernel.sweep(mounts) == []
        assert (source / "disk" / "inner").read_text() == "kept"
    finally:
        kernel.unmount(source / "disk")


def test_a_source_that_is_not_there_leaves_nothing_mounted(tmp_path: Path, mounts: Path) -> None:
    with pytest.raises(OSError, match="data"):
        kernel.bind(tmp_path / "missing", mounts / "data", read_only=True)
    assert kernel.mounts_below(mounts) == []


def test_mounts_with_odd_names_are_found(source: Path, mounts: Path) -> None:
    names = ["with space", "with\nnewline", "with\ttab", "back\\slash", "\\040", "hash#", "ünï", "\udcff"]
    for name in names:
        kernel.bind(source, mounts / name, read_only=True)
    assert kernel.mounts_below(mounts) == [mounts / name for name in names]
    assert kernel.mounts_below(mounts / "with") == []


def test_a_sweep_takes_mounts_and_their_points_and_no_file_that_holds_something(source: Path, mounts: Path) -> None:
    kernel.bind(source, mounts / "attempt" / "data", read_only=False)
    kernel.bind(source, mounts / "attempt" / "data", read_only=True)
    kernel.bind(source / "file", mounts / "attempt" / "one", read_only=True)
    (mounts / "attempt" / "link").symlink_to(source)
    (mounts / "other").mkdir()
    (mounts / "other" / "precious").write_text("of the user")
    assert kernel.sweep(mounts) == []
    assert sorted(mounts.rglob("*")) == [mounts / "other", mounts / "other" / "precious"]
    assert (source / "file").read_text() == "content"
    (mounts / "other" / "precious").unlink()


def test_a_sweep_is_quiet_where_nothing_is(tmp_path: Path) -> None:
    assert kernel.sweep(tmp_path / "never" / "made") == []


@pytest.mark.needs("mount namespace")
def test_unshared_mounts_are_seen_by_nobody_else_and_end_with_their_process(source: Path, mounts: Path) -> None:
    def child() -> None:
        assert kernel.unshare_mounts()
        kernel.bind(source, mounts / "data", read_only=True)
        assert (mounts / "data" / "file").read_text() == "content"

    in_child(child)
    assert kernel.mounts_below(mounts) == []
    assert list((mounts / "data").iterdir()) == []


@pytest.mark.needs("root", "user namespace")
def test_an_ordinary_user_gets_mounts_of_his_own_and_stays_himself() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "source").mkdir()
        (folder / "source" / "file").write_text("content")
        os.chown(folder, NOBODY, NOBODY)

        def child() -> None:
            assert kernel.unshare_mounts()
            kernel.bind(folder / "source", folder / "mounts" / "data", read_only=True)
            assert (folder / "mounts" / "data" / "file").read_text() == "content"
            assert os.getuid() == NOBODY
            (folder / "made").touch()
            assert (folder / "made").stat().st_uid == NOBODY

        assert not kernel.why_no_fuse()
        in_child(child, user=NOBODY)


def test_where_unsharing_is_not_allowed_nothing_changes() -> None:
    def child() -> None:
        end = threading.Event()
        threading.Thread(target=end.wait, daemon=True).start()
        before = os.readlink("/proc/self/ns/mnt")
        assert not kernel.unshare_mounts()  # a process of many threads gets no user namespace
        assert os.readlink("/proc/self/ns/mnt") == before
        assert os.getuid() == NOBODY

    in_child(child, user=NOBODY)
