import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import AlreadyExists, InvalidArgument, NotFound, SourceChanged
from runyard.core.ports.data import DataStore
from runyard.core.records.data import StoredFile
from runyard.testing.race import WRITERS, race

LARGE = os.urandom(1 << 20) * 20 + b"and a bit"
HOSTILE = ["", "/absolute", "../up", "a/../../up", "..", "a\0b", "x" * 5000, "n" * 300, "folder/", "\udc80"]
ODD = ["with space", "ünï/文件", "100%", "a%20b", "a%2Fb", "a+b&c=d", "#hash?query", "~til.de", "[x]{y}", "'\""]


class DataStoreSuite:
    """Contract tests of a writable DataStore. Subclass it and supply an empty `store`."""

    @pytest.fixture
    def store(self) -> DataStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
    def test_a_file_comes_back(self, store: DataStore, tmp_path: Path, content: bytes) -> None:
        stored = _put(store, "folder/file", content, tmp_path)
        assert (stored.path, stored.size) == ("folder/file", len(content))
        assert bytes(store.read("folder/file", 0, len(content), etag=stored.etag)) == content
        assert store.fetch(stored, tmp_path / "fetched", _quiet).size == len(content)
        assert (tmp_path / "fetched").read_bytes() == content

    def test_progress_counts_every_byte_once(self, store: DataStore, tmp_path: Path) -> None:
        for content in (b"small", LARGE):
            sent: list[int] = []
            (tmp_path / "source").write_bytes(content)
            stored = store.put("file", tmp_path / "source", overwrite=True, progress=sent.append)
            fetched: list[int] = []
            store.fetch(stored, tmp_path / "target", fetched.append)
            assert sum(sent) == sum(fetched) == len(content)

    def test_a_file_is_seen_alike_by_put_stat_and_list(self, store: DataStore, tmp_path: Path) -> None:
        stored = _put(store, "a/b", b"12345", tmp_path)
        [listed] = store.list()
        assert store.stat("a/b") == listed
        assert (listed.path, listed.size, listed.etag, listed.is_ranged) == ("a/b", 5, stored.etag, True)
        assert listed.etag
        assert listed.modified_at is not None
        assert abs(listed.modified_at - datetime.now(UTC)) < timedelta(minutes=5)

    def test_other_bytes_have_another_etag(self, store: DataStore, tmp_path: Path) -> None:
        first = _put(store, "a", b"one", tmp_path)
        assert _put(store, "a", b"two", tmp_path).etag != first.etag

    def test_files_are_listed_by_the_beginning_of_their_path(self, store: DataStore, tmp_path: Path) -> None:
        paths = ["a-b", "a.b", "a/b-c", "a/bc", "a/b/c", "ab", "z/é", "z/ü", "A"]
        for path in paths:
            _put(store, path, b"", tmp_path)
        assert _listed(store) == sorted(paths)
        assert _listed(store, "a/b") == ["a/b-c", "a/b/c", "a/bc"]
        assert _listed(store, "a/b/") == ["a/b/c"]
        assert _listed(store, "a") == ["a-b", "a.b", "a/b-c", "a/b/c", "a/bc", "ab"]
        assert _listed(store, "z/ü") == ["z/ü"]
        assert _listed(store, "none") == _listed(store, "a/none/") == _listed(store, "a/b/c/") == []

    def test_more_files_than_a_page_are_listed(self, store: DataStore, tmp_path: Path) -> None:
        paths = [f"many/{number:04}" for number in range(1040)]
        source = tmp_path / "source"
        source.write_bytes(b"")
        stored = race(
            lambda n: [store.put(path, source, overwrite=True, progress=_quiet) for path in paths[n::WRITERS]]
        )
        assert [len(files) for files in stored] == [len(paths[n::WRITERS]) for n in range(WRITERS)]
        assert _listed(store) == paths

    def test_any_part_is_read(self, store: DataStore, tmp_path: Path) -> None:
        _put(store, "a", LARGE, tmp_path)
        end = len(LARGE)
        for start, length in [(0, 1), (7, 100), (end - 1, 1), (end, 0), (1 << 20, 9 << 20)]:
            assert bytes(store.read("a", start, length)) == LARGE[start : start + length]

    @pytest.mark.parametrize(("start", "length"), [(0, 6), (5, 1), (4, 2), (100, 1), (6, 0), (-1, 1), (0, -1)])
    def test_what_is_not_there_is_not_read(self, store: DataStore, tmp_path: Path, start: int, length: int) -> None:
        _put(store, "a", b"12345", tmp_path)
        with pytest.raises(InvalidArgument, match="'a'"):
            store.read("a", start, length)

    def test_nothing_of_an_empty_file_can_be_read(self, store: DataStore, tmp_path: Path) -> None:
        _put(store, "a", b"", tmp_path)
        assert bytes(store.read("a", 0, 0)) == b""
        with pytest.raises(InvalidArgument, match="'a'"):
            store.read("a", 0, 1)

    @pytest.mark.parametrize("content", [b"", b"other", b"longer than before"])
    def test_a_changed_file_is_not_read_as_the_one_it_was(
        self, store: DataStore, tmp_path: Path, content: bytes
    ) -> None:
        seen = _put(store, "a", b"first", tmp_path)
        _put(store, "a", content, tmp_path)
        with pytest.raises(SourceChanged, match="'a'"):
            store.read("a", 0, 5, etag=seen.etag)
        with pytest.raises(SourceChanged, match="'a'"):
            store.read("a", 0, 0, etag=seen.etag)
        with pytest.raises(SourceChanged, match="'a'"):
            store.fetch(seen, tmp_path / "target", _quiet)
        assert _names(tmp_path) == ["source"]

    def test_no_reader_gets_bytes_of_two_versions(self, store: DataStore, tmp_path: Path) -> None:
        seen = _put(store, "a", LARGE, tmp_path)
        other = tmp_path / "other"
        other.write_bytes(bytes(len(LARGE)))

        def read_or_write(number: int) -> Any:
            if number == 0:
                return store.put("a", other, overwrite=True, progress=_quiet)
            return bytes(store.read("a", 0, len(LARGE), etag=seen.etag))

        _, *read = race(read_or_write)
        assert all(isinstance(data, SourceChanged) or data == LARGE for data in read)

    def test_what_is_missing_is_named(self, store: DataStore, tmp_path: Path) -> None:
        _put(store, "folder/file", b"1", tmp_path)
        for path in ("none", "folder", "folder/none", "folder/file/none"):
            for ask in (store.stat, lambda path: store.read(path, 0, 1), lambda path: store.read(path, 0, 0)):
                with pytest.raises(NotFound, match=path):
                    ask(path)
            with pytest.raises(NotFound, match=path):
                store.fetch(StoredFile(path, None), tmp_path / "target", _quiet)
        assert _names(tmp_path) == ["source"]

    def test_a_missing_source_is_named(self, store: DataStore, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="no such source"):
            store.put("a", tmp_path / "no such source", overwrite=True, progress=_quiet)
        with pytest.raises(InvalidArgument, match=tmp_path.name):
            store.put("a", tmp_path, overwrite=True, progress=_quiet)
        assert _listed(store) == []

    def test_a_link_is_stored_as_the_file_it_leads_to(self, store: DataStore, tmp_path: Path) -> None:
        (tmp_path / "real").write_bytes(b"bytes")
        (tmp_path / "link").symlink_to("real")
        store.put("a", tmp_path / "link", overwrite=True, progress=_quiet)
        assert bytes(store.read("a", 0, 5)) == b"bytes"

    def test_a_file_is_replaced_only_when_asked(self, store: DataStore, tmp_path: Path) -> None:
        _put(store, "a", b"first", tmp_path)
        for content in (b"small", LARGE):
            with pytest.raises(AlreadyExists, match="'a'"):
                _put(store, "a", content, tmp_path, overwrite=False)
        assert bytes(store.read("a", 0, 5)) == b"first"
        _put(store, "a", LARGE, tmp_path)
        assert store.stat("a").size == len(LARGE)

    def test_one_of_eight_that_create_a_file_wins(self, store: DataStore, tmp_path: Path) -> None:
        def create(number: int) -> StoredFile:
            source = tmp_path / str(number)
            source.write_bytes(str(number).encode())
            return store.put("a", source, overwrite=False, progress=_quiet)

        results = race(create)
        winners = [number for number, result in enumerate(results) if isinstance(result, StoredFile)]
        assert len(winners) == 1
        assert bytes(store.read("a", 0, 1)) == str(winners[0]).encode()
        assert sum(isinstance(result, AlreadyExists) for result in results) == WRITERS - 1

    def test_what_eight_writers_leave_is_one_of_theirs_whole(self, store: DataStore, tmp_path: Path) -> None:
        def replace(number: int) -> StoredFile:
            source = tmp_path / str(number)
            source.write_bytes(bytes([number]) * (1 << 20))
            return store.put("a", source, overwrite=True, progress=_quiet)

        assert all(isinstance(result, StoredFile) for result in race(replace))
        assert len(set(bytes(store.read("a", 0, 1 << 20)))) == 1
        assert _listed(store) == ["a"]

    def test_a_deleted_file_is_gone(self, store: DataStore, tmp_path: Path) -> None:
        _put(store, "a/b", b"1", tmp_path)
        _put(store, "a/c", b"2", tmp_path)
        for _ in range(2):
            store.delete("a/b")
        store.delete("never/was")
        assert _listed(store) == ["a/c"]

    @pytest.mark.parametrize("path", HOSTILE, ids=ascii)
    def test_a_path_that_cannot_be_is_refused(self, store: DataStore, tmp_path: Path, path: str) -> None:
        (tmp_path / "source").write_bytes(b"1")
        for ask in (
            lambda: store.stat(path),
            lambda: store.read(path, 0, 1),
            lambda: store.fetch(StoredFile(path, 1, "e"), tmp_path / "target", _quiet),
            lambda: store.put(path, tmp_path / "source", overwrite=True, progress=_quiet),
            lambda: store.delete(path),
        ):
            with pytest.raises(InvalidArgument, match="path"):
                ask()
        assert _listed(store) == []
        assert _names(tmp_path) == ["source"]

    @pytest.mark.parametrize("prefix", ["/absolute", "../up", "a/../../up", "..", "a\0b", "\udc80"], ids=ascii)
    def test_a_prefix_that_leads_out_is_refused(self, store: DataStore, prefix: str) -> None:
        with pytest.raises(InvalidArgument, match="path"):
            list(store.list(prefix))

    @pytest.mark.parametrize("path", ODD, ids=ascii)
    def test_odd_names_come_back_as_they_were(self, store: DataStore, tmp_path: Path, path: str) -> None:
        stored = _put(store, path, b"odd", tmp_path)
        assert stored.path == path
        assert _listed(store) == [path]
        assert bytes(store.read(path, 0, 3, etag=stored.etag)) == b"odd"
        assert store.stat(path).size == 3
        store.delete(path)
        assert _listed(store) == []

    @pytest.mark.parametrize("path", ["two\nlines", "ta\tb", "back\\slash"], ids=ascii)
    def test_what_not_every_store_takes_is_kept_or_refused(self, store: DataStore, tmp_path: Path, path: str) -> None:
        is_refused = False
        try:
            _put(store, path, b"1", tmp_path)
        except InvalidArgument:
            is_refused = True
        assert _listed(store) == ([] if is_refused else [path])

    def test_identity_names_the_place(self, store: DataStore) -> None:
        assert store.identity
        assert store.identity == store.identity.strip()


def _put(store: DataStore, path: str, content: bytes, folder: Path, *, overwrite: bool = True) -> StoredFile:
    source = folder / "source"
    source.write_bytes(content)
    return store.put(path, source, overwrite=overwrite, progress=_quiet)


def _listed(store: DataStore, prefix: str = "") -> list[str]:
    return [file.path for file in store.list(prefix)]


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def _quiet(count: int) -> None:
    pass
