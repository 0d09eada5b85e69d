"""The SDK's to_path() and the node's mounts are written apart, for different Pythons; they must agree."""

from pathlib import Path

import pytest

from azureml.data._file_layout import fixed_part, matching, stored_path, web_path
from runyard.model.plan import DataItem
from runyard.node.data import DataCache, bring
from runyard.planning import data_layout

ADDRESSES = [
    "http://yann.lecun.com/exdb/mnist/train-images-idx3-ubyte.gz",
    "https://host:8080/a%20b/ü/c.gz?x=1&y=/../z",
    "http://user:secret@host/../../etc/passwd",
    "http://host",
    "http://host/./a//b/",
]
FILES = ["a/x.gz", "a/b/y.gz", "a/b/z.txt", "c.gz", "a/[odd].txt"]


@pytest.mark.parametrize("urls", [ADDRESSES, *([url] for url in ADDRESSES)], ids=len)
def test_web_addresses_lie_where_the_node_puts_them(urls):
    assert [web_path(urls, url) for url in urls] == [data_layout.path_in_dataset(urls, url) for url in urls]


@pytest.mark.parametrize(
    "patterns",
    [["a"], ["a/*"], ["a/*.gz"], ["**/*.gz"], ["a/**"], ["*"], ["a/b/[yz].*"], ["a/x.gz"], ["a/?.gz"], [""],
     ["a/b", "c.gz"], ["**/*.txt", "a"], ["a/**/y.gz"], ["a/b/[!y]*"]],
    ids=" ".join,
)  # fmt: skip
def test_files_of_datastores_lie_where_the_node_puts_them(patterns, tmp_path: Path):
    store = tmp_path / "store"
    for name in FILES:
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_text(name)
    item = DataItem(
        name="d", mode="download", placeholder="", source={"files": [["s", str(store), one] for one in patterns]}
    )
    root = bring(item, tmp_path / "attempt", DataCache(tmp_path / "cache"), {}, print)
    expected = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    found = {stored_path(len(patterns) == 1, "s", one, name) for one in patterns for name in matching(FILES, one)}
    assert found == expected


@pytest.mark.parametrize("pattern", ["", "a", "a/b", "a/*/b", "**", "/a/", "a/b?/c"])
def test_the_fixed_part_of_a_pattern_is_the_same(pattern):
    assert fixed_part(pattern) == data_layout.fixed_part(pattern)
