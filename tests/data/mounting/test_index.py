import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import DataFailed
from runyard.core.records.data import SourceFile
from runyard.data.fuse.file_index import FileIndex, IndexFolder


def file(path: str, size: int | None = 1) -> SourceFile:
    return SourceFile(path, "far", path, size)


def paths_of(index: FileIndex, folder: IndexFolder | None = None, above: str = "") -> dict[str, SourceFile]:
    found: dict[str, SourceFile] = {}
    for raw, number in (folder or index.root).children.items():
        path, node = above + raw.decode("utf-8", "surrogateescape"), index.nodes[number]
        if isinstance(node, IndexFolder):
            found.update(paths_of(index, node, f"{path}/"))
        else:
            found[path] = node
    return found


part = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)


@given(st.lists(st.lists(part, min_size=1, max_size=4).map("/".join), max_size=30))
def test_every_file_is_found_under_its_path(paths: list[str]) -> None:
    alone = {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}
    files = [file(path) for path in alone]
    assert paths_of(FileIndex(files)) == {one.path: one for one in files}


@pytest.mark.parametrize(
    "path",
    [
        "../up",
        "a/../b",
        "..",
        "/absolute",
        "a//b",
        "a/./b",
        "nul\0byte",
        "n" * 256,
        "ü" * 128,
        "deep/" + "n" * 5000,
        "a/",
    ],
)
def test_a_path_that_no_folder_can_show_is_refused_by_its_name(path: str) -> None:
    with pytest.raises(DataFailed) as refused:
        FileIndex([file("fine"), file(path)])
    assert refused.value.facts["path"] == path
    assert repr(path[:90])[1:-1] in refused.value.problem


@pytest.mark.parametrize("paths", [["a", "a/b"], ["a/b", "a"], ["a/b/c", "a/b"], ["same", "same"]])
def test_a_name_that_stands_for_two_things_is_refused(paths: list[str]) -> None:
    with pytest.raises(DataFailed, match="cannot be mounted"):
        FileIndex([file(path) for path in paths])


def test_the_empty_marks_of_folders_on_object_stores_are_left_out() -> None:
    index = FileIndex([file("a", 0), file("a/b"), file("c/", 0), file("c/d"), file("empty/", 0)])
    assert set(paths_of(index)) == {"a/b", "c/d"}
    assert set(index.root.children) == {b"a", b"c", b"empty"}
