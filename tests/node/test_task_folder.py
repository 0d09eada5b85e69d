import os

import pytest

from runyard.node.task_folder import RESERVE_BYTES, TaskFolder


@pytest.fixture
def folder(tmp_path):
    folder = TaskFolder(tmp_path, "run1.1")
    folder.root.mkdir(parents=True)
    folder.make_room()
    return folder


def test_the_reserve_does_not_touch_the_lock(folder):
    lock = folder.take_lock()
    folder.hold_reserve(1)
    assert os.fstat(lock).st_blocks * 512 >= RESERVE_BYTES
    assert folder.take_lock() is None
    folder.free_reserve()
    assert os.fstat(lock).st_blocks == 0
    assert folder.take_lock() is None
    os.close(lock)


def test_a_reserve_of_an_earlier_version_is_freed(folder):
    (folder.root / ".reserve").write_bytes(b"x")
    folder.free_own_reserve()
    assert not (folder.root / ".reserve").exists()


def test_what_a_script_linked_to_outlives_its_folder(folder, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (folder.work / "folder").symlink_to(kept)
    (folder.work / "file").symlink_to(kept / "file")
    (folder.work / "deep" / "er").mkdir(parents=True)
    folder.delete()
    folder.delete()
    assert (kept / "file").read_text() == "x"
    assert os.listdir(folder.root.parent) == os.listdir(folder.scripts.parent) == []


def test_a_tree_too_deep_for_paths_is_deleted(folder):
    inside = os.open(folder.work, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=inside)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = below
    os.close(inside)
    folder.delete()
    assert os.listdir(folder.scripts.parent) == []
