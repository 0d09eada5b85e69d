import os
import socket
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument, NotFound, RunyardError
from runyard.core.ports.blobs import BlobStore
from runyard.testing.race import race

LARGE = os.urandom(1 << 20) * 9 + b"and a bit"


class BlobStoreSuite:
    """Contract tests of BlobStore. Subclass it and supply `store`."""

    @pytest.fixture
    def store(self) -> BlobStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
    def test_bytes_come_back(self, store: BlobStore, content: bytes) -> None:
        name = _name(content)
        assert store.put(name, [content[:3], content[3:]]) == len(content)
        assert _read(store, name) == content

    def test_a_blob_put_twice_is_left_alone(self, store: BlobStore) -> None:
        store.put(_name(b"a"), [b"a"])
        assert store.put(_name(b"a"), [b"other bytes, never looked at"]) == 1
        assert _read(store, _name(b"a")) == b"a"

    def test_other_bytes_than_named_are_refused(self, store: BlobStore) -> None:
        with pytest.raises(InvalidArgument, match=_name(b"right")):
            store.put(_name(b"right"), [b"wrong"])
        assert store.missing([_name(b"right"), _name(b"wrong")]) == [_name(b"right"), _name(b"wrong")]

    def test_a_source_that_breaks_off_leaves_nothing(self, store: BlobStore) -> None:
        def broken() -> Iterator[bytes]:
            yield b"some"
            raise ConnectionResetError

        with pytest.raises((ConnectionError, RunyardError)):
            store.put(_name(b"some more"), broken())
        assert store.missing([_name(b"some more"), _name(b"some")]) == [_name(b"some more"), _name(b"some")]

    @pytest.mark.parametrize("name", ["", "../" + "a" * 61, "A" * 64, "a" * 63, "a" * 64 + "\n"])
    def test_only_a_sha256_is_a_name(self, store: BlobStore, name: str) -> None:
        with pytest.raises(InvalidArgument):
            store.put(name, [b""])
        with pytest.raises(InvalidArgument):
            store.open(name)
        with pytest.raises(InvalidArgument):
            store.missing([name])
        with pytest.raises(InvalidArgument):
            store.local_path(name)

    def test_an_unknown_blob_is_not_found(self, store: BlobStore) -> None:
        with pytest.raises(NotFound, match=_name(b"never")):
            store.open(_name(b"never"))
        assert store.local_path(_name(b"never")) is None

    def test_eight_writers_of_one_blob_agree(self, store: BlobStore) -> None:
        assert race(lambda _: store.put(_name(LARGE), [LARGE])) == [len(LARGE)] * 8
        assert _read(store, _name(LARGE)) == LARGE

    def test_many_are_stored_together(self, store: BlobStore) -> None:
        contents = [str(number % 300).encode() for number in range(600)]
        store.put_many((_name(content), content) for content in contents)
        assert [_read(store, _name(content)) for content in contents] == contents
        with pytest.raises(InvalidArgument, match=_name(b"right")):
            store.put_many([(_name(b"good"), b"good"), (_name(b"right"), b"wrong")])
        assert store.missing([_name(b"right"), _name(b"wrong")]) == [_name(b"right"), _name(b"wrong")]

    def test_files_are_copied_in_order(self, store: BlobStore, tmp_path: Path) -> None:
        contents = [LARGE, b"", b"twice", b"twice", *(str(number).encode() for number in range(600))]
        paths = [tmp_path / f"file {number}" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        expected = [(_name(content), len(content)) for content in contents]
        assert store.put_files(paths) == expected
        assert store.put_files(paths) == expected
        assert [_read(store, name) for name, _ in expected] == contents

    @pytest.mark.parametrize("content", [b"before", LARGE], ids=["small", "large"])
    def test_a_file_changed_later_does_not_change_the_blob(
        self, store: BlobStore, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "model"
        path.write_bytes(content)
        [(name, _)] = store.put_files([path])
        with path.open("r+b") as file:
            file.write(b"XXXX")
        assert _read(store, name) == content

    @pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
    def test_final_files_are_stored_and_stay_where_they_are(
        self, store: BlobStore, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "model"
        path.write_bytes(content)
        assert store.put_files([path, path], are_final=True) == [(_name(content), len(content))] * 2
        path.unlink()
        assert _read(store, _name(content)) == content

    def test_a_final_file_with_a_second_name_is_copied(self, store: BlobStore, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").write_bytes(LARGE)
        (tmp_path / "model").hardlink_to(tmp_path / "elsewhere")
        [(name, _)] = store.put_files([tmp_path / "model"], are_final=True)
        (tmp_path / "elsewhere").write_bytes(b"changed")
        assert _read(store, name) == LARGE

    def test_only_regular_files_are_copied(self, store: BlobStore, tmp_path: Path) -> None:
        (tmp_path / "plain").write_bytes(b"secret")
        (tmp_path / "link").symlink_to(tmp_path / "plain")
        os.mkfifo(tmp_path / "fifo")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "socket"))
            for path in (tmp_path / "link", tmp_path / "fifo", tmp_path / "socket", tmp_path, Path("/dev/zero")):
                with pytest.raises(InvalidArgument, match=path.name):
                    store.put_files([path])
        with pytest.raises(NotFound, match="gone"):
            store.put_files([tmp_path / "gone"])

    def test_unused_blobs_go_when_old_enough(self, store: BlobStore) -> None:
        for content in (b"used", b"unused"):
            store.put(_name(content), [content])
        assert store.delete_unused({_name(b"used")}, older_than_seconds=3600) == (0, 0)
        assert store.delete_unused({_name(b"used")}, older_than_seconds=-60) == (1, len(b"unused"))
        assert store.missing([_name(b"used"), _name(b"unused")]) == [_name(b"unused")]

    def test_a_blob_put_while_unused_ones_are_deleted_stays_whole(self, store: BlobStore) -> None:
        done = threading.Event()

        def collect() -> None:
            while not done.is_set():
                store.delete_unused(set(), older_than_seconds=-60)

        collector = threading.Thread(target=collect)
        collector.start()
        try:
            for number in range(20):
                content = str(number).encode()
                assert store.put(_name(content), [content]) == len(content)
        finally:
            done.set()
            collector.join()

    def test_a_blob_on_its_way_in_is_not_abandoned(self, store: BlobStore) -> None:
        def chunks() -> Iterator[bytes]:
            yield LARGE
            assert store.remove_abandoned() == (0, 0)
            yield b"the rest"

        content = LARGE + b"the rest"
        assert store.put(_name(content), chunks()) == len(content)
        assert _read(store, _name(content)) == content

    def test_blobs_are_put_while_abandoned_ones_are_removed(self, store: BlobStore, tmp_path: Path) -> None:
        done = threading.Event()

        def remove() -> None:
            while not done.is_set():
                store.remove_abandoned()

        remover = threading.Thread(target=remove)
        remover.start()
        try:
            for number in range(50):
                content = str(number).encode()
                (tmp_path / f"file{number}").write_bytes(content)
                store.put_files([tmp_path / f"file{number}"], are_final=number % 2 == 0)
                assert _read(store, _name(content)) == content
        finally:
            done.set()
            remover.join()


def _name(content: bytes) -> str:
    return sha256(content).hexdigest()


def _read(store: BlobStore, name: str) -> bytes:
    with store.open(name) as blob:
        return blob.read()
