import random
from datetime import UTC, datetime

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.records.data import SourceFile, StoredFile
from runyard.data.datasets.steps import FoundFile, steps_of

PATH, SIZE, TIME = (["column", name] for name in ("Path", "Size", "LastModifiedTime"))


def _file(number: int, size: int | None = None) -> FoundFile:
    stored = StoredFile(f"{number:02}", number if size is None else size, "", datetime(2026, 1, number + 1, tzinfo=UTC))
    return FoundFile(SourceFile(stored.path, "blobs", stored.path, stored.size), stored)


FILES = [_file(number) for number in range(20)]


def _kept(*steps: list[object], files: list[FoundFile] = FILES) -> list[str]:
    for step in steps_of(list(steps)):
        files = list(step(files))
    return [file.source.path for file in files]


def test_steps_are_applied_in_order():
    assert _kept(["skip", 2], ["take", 3]) == ["02", "03", "04"]
    assert _kept(["take", 3], ["skip", 2]) == ["02"]
    assert _kept(["take", 100]) == [file.source.path for file in FILES]
    assert _kept(["skip", 100]) == []


def test_a_sample_and_the_rest_share_the_files_between_them():
    sample, rest = _kept(["sample", 0.4, 7, True]), _kept(["sample", 0.4, 7, False])
    chances = random.Random(7)
    assert sample == [file.source.path for file in FILES if chances.random() < 0.4]
    assert sorted(sample + rest) == [file.source.path for file in FILES]


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        (["==", SIZE, 3], ["03"]),
        (["!=", SIZE, 3], [file.source.path for file in FILES if file.stored.size != 3]),
        (["<", 17, SIZE], ["18", "19"]),
        (["and", [">=", SIZE, 3], ["<=", SIZE, 4]], ["03", "04"]),
        (["or", ["==", SIZE, 3], ["==", PATH, "/07"]], ["03", "07"]),
        (["not", [">", SIZE, 1]], ["00", "01"]),
        (["startswith", PATH, "/1"], [f"1{n}" for n in range(10)]),
        (["endswith", PATH, "5"], ["05", "15"]),
        (["contains", PATH, "19"], ["19"]),
        ([">", TIME, "2026-01-19"], ["19"]),
        (["<", TIME, "2026-01-01T01:00:00+01:00"], []),
        (["==", ["column", "CanSeek"], False], []),
        (["startswith", SIZE, "1"], []),
    ],
)
def test_a_filter_keeps_what_it_says(expression, meant):
    assert _kept(["filter", expression]) == meant


def test_a_size_that_nobody_knows_matches_nothing_but_unlike():
    unknown = [FoundFile(SourceFile("x", "", "x", None), StoredFile("x", None))]
    for test in ("==", "<", ">", "<=", ">="):
        assert _kept(["filter", [test, SIZE, 0]], files=unknown) == []
    assert _kept(["filter", ["!=", SIZE, 0]], files=unknown) == ["x"]


def _nested(depth: int) -> list[object]:
    expression: list[object] = ["==", SIZE, 1]
    for _ in range(depth):
        expression = ["not", expression]
    return expression


@pytest.mark.parametrize(
    "step",
    [
        "take",
        [],
        [["take"]],
        ["jump", 1],
        ["take"],
        ["take", 1, 2],
        ["take", -1],
        ["take", 1.5],
        ["skip", True],
        ["sample", 2, 1],
        ["sample", 0.5, None],
        ["sample", "x", 1],
        ["sample", 0.5, 1, "yes"],
        ["filter", 7],
        ["filter", ["==", ["column", "Colour"], 1]],
        ["filter", ["==", SIZE]],
        ["filter", ["~", SIZE, 1]],
        ["filter", ["==", SIZE, {"a": 1}]],
        ["filter", [">", TIME, "yesterday"]],
        ["filter", [">", TIME, 7]],
        ["filter", _nested(500)],
    ],
)
def test_a_step_that_is_none_is_refused(step):
    with pytest.raises(InvalidArgument):
        steps_of([step])


def test_too_many_steps_are_refused():
    with pytest.raises(InvalidArgument, match="at most"):
        steps_of([["take", 1]] * 1000)


def test_what_cannot_be_ordered_is_told():
    with pytest.raises(InvalidArgument, match="int and str"):
        _kept(["filter", ["<", SIZE, "big"]])
