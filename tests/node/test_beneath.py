import os
from pathlib import Path

import pytest

from runyard.node.confined_files import is_file_beneath, open_beneath, open_to_everybody, stat_beneath, unlink_beneath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("of the machine")
    root = tmp_path / "root"
    (root / "below").mkdir(parents=True)
    (root / "below" / "file").write_text("own")
    return root


def content(path: Path, root: Path) -> str:
    with os.fdopen(open_beneath(path, root)) as file:
        return file.read()


def test_a_file_below_is_opened_also_by_a_link_that_stays_there(root):
    (root / "link").symlink_to("below/file")
    (root / "folder").symlink_to(root / "below")
    for name in ("below/file", "link", "folder/file"):
        assert content(root / name, root) == "own"


@pytest.mark.parametrize("link", ["by file", "by folder", "out and back"])
def test_a_link_that_leads_out_leads_to_nothing(root, link):
    paths = {
        "by file": root / "x",
        "by folder": root / "d" / "key",
        "out and back": root / "below" / "../../secret/key",
    }
    (root / "x").symlink_to(root.parent / "secret" / "key")
    (root / "d").symlink_to(root.parent / "secret")
    assert not is_file_beneath(paths[link], root)
    with pytest.raises(PermissionError):
        open_beneath(paths[link], root)


def test_a_root_that_is_reached_by_a_link_is_as_good(root):
    (root.parent / "other").symlink_to(root)
    assert content(root.parent / "other" / "below" / "file", root.parent / "other") == "own"


def test_a_neighbour_whose_name_begins_the_same_is_outside(root):
    (root.parent / "root-of-another").write_text("x")
    assert not is_file_beneath(root.parent / "root-of-another", root)


def test_what_is_no_plain_file_is_not_opened(root):
    """Opening a fifo would wait, and opening a device may do anything."""
    os.mkfifo(root / "fifo")
    os.mknod(root / "disk", 0o60600, os.makedev(7, 0))
    for name in ("fifo", "disk", "below"):
        with pytest.raises(PermissionError):
            stat_beneath(root / name, root)


def test_nothing_outside_is_removed(root):
    (root / "d").symlink_to(root.parent / "secret")
    unlink_beneath(root / "d" / "key", root)
    unlink_beneath(root / "below" / "file", root)
    unlink_beneath(root / "below" / "never there", root)
    assert (root.parent / "secret" / "key").exists()
    assert not (root / "below" / "file").exists()


def test_no_folder_outside_is_opened_to_everybody(root):
    (root / "d").symlink_to(root.parent / "secret")
    before = (root.parent / "secret").stat().st_mode
    for place in (root / "d", root / "below", root / "below" / "file", root / "never there"):
        open_to_everybody(place)
    assert (root.parent / "secret").stat().st_mode == before
    assert (root / "below").stat().st_mode & 0o777 == 0o777
    assert (root / "below" / "file").stat().st_mode & 0o777 != 0o777
