from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.access.local_files import inside
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_asset_name, check_relative_path, check_run_id
from runyard.core.records.assets import AssetKind

ODD_TEXT = st.text(st.sampled_from("ab./\\\0\n ~é\ud800") | st.characters(), max_size=40)


@given(ODD_TEXT)
def test_an_accepted_path_always_stays_below_its_root(path):
    try:
        normal = check_relative_path(path, "path")
    except InvalidArgument:
        return
    parts = PurePosixPath(normal).parts
    assert parts
    assert not {"..", ".", "", "/"} & set(parts)
    assert "\0" not in normal
    assert check_relative_path(normal, "path") == normal


@given(ODD_TEXT)
def test_an_accepted_run_id_is_one_name_of_a_folder(run_id):
    try:
        check_run_id(run_id)
    except InvalidArgument:
        return
    assert PurePosixPath(run_id).parts == (run_id,)
    assert run_id not in (".", "..")
    assert "~" not in run_id


@given(ODD_TEXT, st.sampled_from(list(AssetKind)))
def test_an_accepted_asset_name_is_one_part_of_an_address(name, kind):
    try:
        check_asset_name(kind, name)
    except InvalidArgument:
        return
    assert "/" not in name
    assert "\0" not in name
    assert name not in ("", ".", "..")


def test_a_path_is_made_normal():
    assert check_relative_path("./a//b/./c", "path") == "a/b/c"


def test_a_link_out_of_the_root_is_refused(tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    (tmp_path / "root" / "in").symlink_to("deeper")
    with pytest.raises(InvalidArgument, match="through a link"):
        inside(tmp_path / "root", "out/x", "path")
    assert inside(tmp_path / "root", "in/x", "path") == tmp_path / "root" / "in" / "x"


@pytest.mark.parametrize(
    "path", ["..\\x", "a\\..\\..\\x", "a/..\\x", "C:\\x", "C:x", "c:/x", "\\x", "\\\\host\\x", "a\0b"]
)
def test_a_path_that_leaves_its_folder_on_another_system_is_refused(path):
    with pytest.raises(InvalidArgument):
        check_relative_path(path, "path")


@pytest.mark.parametrize("path", ["a\\b", "a..\\b", "ab:c", "1:2", "a/c:x", "x..y"])
def test_odd_names_that_stay_in_their_folder_are_taken(path):
    assert check_relative_path(path, "path") == path
