import re
import time

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.path_patterns import fixed_part, literal_prefix, matcher, whole_folder
from runyard.data.datasets.layout import paths_in_dataset, stored_path

NAMES = ["a.csv", "a/b.csv", "a/b.txt", "a/c/d.csv", "a/c/e/f.csv", "ab/x.csv", "a/[1].csv", "a/line\nend.csv"]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("", NAMES),
        ("a", ["a/b.csv", "a/b.txt", "a/c/d.csv", "a/c/e/f.csv", "a/[1].csv", "a/line\nend.csv"]),
        ("/a/c/", ["a/c/d.csv", "a/c/e/f.csv"]),
        ("*.csv", ["a.csv"]),
        ("a/*.csv", ["a/b.csv", "a/[1].csv", "a/line\nend.csv"]),
        ("a/**/*.csv", ["a/b.csv", "a/c/d.csv", "a/c/e/f.csv", "a/[1].csv", "a/line\nend.csv"]),
        ("**", NAMES),
        ("**/d.csv", ["a/c/d.csv"]),
        ("a/?.txt", ["a/b.txt"]),
        ("a/[ab].*", ["a/b.csv", "a/b.txt"]),
        ("a/[!c].csv", ["a/b.csv"]),
        ("a?", ["ab/x.csv"]),
        ("a/*", ["a/b.csv", "a/b.txt", "a/c/d.csv", "a/c/e/f.csv", "a/[1].csv", "a/line\nend.csv"]),
        ("*/c/**", ["a/c/d.csv", "a/c/e/f.csv"]),
        ("a.csv", ["a.csv"]),
        ("a.*sv", ["a.csv"]),
        ("[", []),
    ],
)
def test_a_pattern_means_these_files(pattern, meant):
    is_meant = matcher(pattern)
    assert [name for name in NAMES if is_meant(name)] == meant


@pytest.mark.parametrize("pattern", ["[", "[]", "[]]", "[a-", "(", "a/[\\]x", "[^/]", "[[:alpha:]]", "a/./b"])
def test_an_odd_pattern_is_a_pattern_all_the_same(pattern):
    assert not matcher(pattern)("none of these")


@pytest.mark.parametrize("pattern", ["[z-a]", "[!]"])
def test_a_choice_of_nothing_is_refused(pattern):
    with pytest.raises(InvalidArgument, match=re.escape(pattern)):
        matcher(pattern)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("**/c/**/f.csv", ["a/c/e/f.csv"]),
        ("**/a/**", ["a/b.csv", "a/b.txt", "a/c/d.csv", "a/c/e/f.csv", "a/[1].csv", "a/line\nend.csv"]),
        ("**/**/d.csv", ["a/c/d.csv"]),
        ("**/c/**/c/**", []),
        ("a/**/e/**/*.csv", ["a/c/e/f.csv"]),
        ("**/**", NAMES),
    ],
)
def test_any_depth_may_come_twice(pattern, meant):
    is_meant = matcher(pattern)
    assert [name for name in NAMES if is_meant(name)] == meant


@pytest.mark.parametrize("pattern", ["*a" * 100 + "b", "**/a/" * 100 + "b", "[ab]*" * 100 + "c", "*?" * 100 + "*c"])
def test_a_pattern_made_to_take_for_ever_does_not(pattern):
    names = ["a" * 1000, "a/" * 500 + "a"]
    started = time.process_time()
    assert not any(matcher(pattern)(name) for name in names)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("pattern", "fixed", "prefix"),
    [
        ("a/b/*.gz", "a/b", "a/b/"),
        ("a/train*", "a", "a/train"),
        ("a/**", "a", "a/"),
        ("**", "", ""),
        ("a/b.txt", "a/b.txt", "a/b.txt"),
        ("/a/", "a", "a/"),
    ],
)
def test_a_glob_begins_below_its_fixed_part(pattern, fixed, prefix):
    assert (fixed_part(pattern), literal_prefix(pattern)) == (fixed, prefix)


@pytest.mark.parametrize(
    ("pattern", "folder"),
    [("", ""), ("a", "a"), ("a/**", "a"), ("**", ""), ("a/**/**", "a"), ("a/*", None), ("*/**", None)],
)
def test_a_whole_folder_is_known_as_one(pattern, folder):
    assert whole_folder(pattern) == folder


@pytest.mark.parametrize(
    ("url", "alone", "among_others"),
    [
        ("http://h:8/exdb/x.gz", "x.gz", "http%3A/%2Fh%3A8/exdb/x.gz"),
        ("https://h/a%20b/c d", "c%20d", "https%3A/%2Fh/a%20b/c%20d"),
        ("https://user:secret@h/x", "x", "https%3A/%2Fh/x"),
        ("http://h/../..", "%2E%2E", "http%3A/%2Fh/%2E%2E/%2E%2E"),
        ("http://h", "index", "http%3A/%2Fh/index"),
        ("http://h/x.csv?sig=secret", "x.csv", "http%3A/%2Fh/x.csv"),
    ],
)
def test_each_address_has_a_safe_place_in_its_dataset(url, alone, among_others):
    assert paths_in_dataset([url])[url] == alone
    assert paths_in_dataset([url, "http://other/x"])[url] == among_others


def test_addresses_that_differ_by_their_query_alone_are_told_apart_without_it():
    urls = ["http://h/x.csv?part=1", "http://h/x.csv?part=2", "http://h/y.csv?part=1", "http://h/.x?a", "http://h/.x?b"]
    paths = list(paths_in_dataset(urls).values())
    assert len(set(paths)) == len(urls)
    assert not any("part" in path for path in paths)
    assert [path.rpartition(".")[2] for path in paths[:3]] == ["csv"] * 3
    assert paths[2] == "http%3A/%2Fh/y.csv"
    assert paths == list(paths_in_dataset(urls).values())


@pytest.mark.parametrize("name", ["a" * 5000 + ".gz", "%E3%81%82" * 100 + ".gz", "あ" * 100 + ".gz"])
def test_a_name_that_no_disk_takes_is_cut_and_keeps_its_kind(name):
    (path,) = paths_in_dataset([f"http://h/{name}"]).values()
    assert len(path.encode()) <= 255
    assert path.endswith(".gz")
    assert paths_in_dataset([f"http://h/x{name}"]) != paths_in_dataset([f"http://h/{name}"])


@pytest.mark.parametrize(
    ("pattern", "name", "alone"),
    [("a/b", "a/b/c/d", "c/d"), ("a/b/x.csv", "a/b/x.csv", "x.csv"), ("a/*/x", "a/b/x", "b/x"), ("", "a/b", "a/b")],
)
def test_each_stored_file_has_its_place_below_the_only_source(pattern, name, alone):
    assert stored_path("blobs", pattern, name, is_only_source=True) == alone
    assert stored_path("blobs", pattern, name, is_only_source=False) == f"blobs/{name}"
