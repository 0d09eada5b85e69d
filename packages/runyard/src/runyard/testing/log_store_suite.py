import pytest

from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.ports.blobs import LogStore
from runyard.testing.race import race

LOG = "azureml-logs/70_driver_log.txt"


class LogStoreSuite:
    """Contract tests of LogStore. Subclass it and supply `store`."""

    @pytest.fixture
    def store(self) -> LogStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    def test_a_log_grows_and_is_read_in_parts(self, store: LogStore) -> None:
        assert store.append("r1", LOG, 0, b"first\n") == 6
        assert store.append("r1", LOG, 6, b"second\n\xff\0") == 15
        assert store.read("r1", LOG) == b"first\nsecond\n\xff\0"
        assert store.read("r1", LOG, 6, 6) == b"second"
        assert store.read("r1", LOG, 99) == b""
        assert store.size("r1", LOG) == 15

    def test_bytes_sent_twice_are_stored_once(self, store: LogStore) -> None:
        store.append("r1", LOG, 0, b"abcdef")
        assert store.append("r1", LOG, 0, b"abcdef") == 6
        assert store.append("r1", LOG, 3, b"defghi") == 9
        assert store.append("r1", LOG, 0, b"ab") == 9
        assert store.read("r1", LOG) == b"abcdefghi"

    def test_a_gap_is_refused_and_says_where_to_go_on(self, store: LogStore) -> None:
        store.append("r1", LOG, 0, b"abc")
        with pytest.raises(Conflict, match="byte 3") as refused:
            store.append("r1", LOG, 4, b"x")
        assert refused.value.facts == {"offset": 3}

    def test_eight_senders_of_the_same_bytes_write_them_once(self, store: LogStore) -> None:
        lines = [b"%04d\n" % number for number in range(50)]

        def send(_: int) -> None:
            for number, line in enumerate(lines):
                store.append("r1", LOG, number * 5, line)

        race(send)
        assert store.read("r1", LOG) == b"".join(lines)

    def test_a_log_never_written_is_empty(self, store: LogStore) -> None:
        assert store.size("r1", LOG) == 0
        assert store.read("r1", LOG) == b""
        assert store.sizes("r1") == {}
        store.seal("r1")

    def test_sizes_are_by_path_and_by_run(self, store: LogStore) -> None:
        store.append("r1", "logs/ü b.txt", 0, b"12")
        store.append("r1", LOG, 0, b"1")
        store.append("r2", LOG, 0, b"other")
        assert list(store.sizes("r1").items()) == [(LOG, 1), ("logs/ü b.txt", 2)]
        store.seal("r1")

    def test_deleting_takes_the_logs_of_that_run_alone(self, store: LogStore) -> None:
        for run_id in ("r1", "r2"):
            store.append(run_id, LOG, 0, b"x")
        store.delete("r1")
        store.delete("r1")
        assert (store.sizes("r1"), store.sizes("r2")) == ({}, {LOG: 1})

    @pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a\0b", "", "a/" + "x" * 300])
    def test_a_path_that_leaves_the_run_is_refused(self, store: LogStore, path: str) -> None:
        with pytest.raises(InvalidArgument):
            store.append("r1", path, 0, b"x")
        with pytest.raises(InvalidArgument):
            store.read("r1", path)

    @pytest.mark.parametrize("run_id", ["..", "a/b", "", "/"])
    def test_a_run_id_that_is_a_path_is_refused(self, store: LogStore, run_id: str) -> None:
        with pytest.raises(InvalidArgument):
            store.append(run_id, LOG, 0, b"x")
        with pytest.raises(InvalidArgument):
            store.delete(run_id)

    def test_a_log_cannot_be_a_folder_too(self, store: LogStore) -> None:
        store.append("r1", "a/b", 0, b"x")
        for path in ("a", "a/b/c"):
            with pytest.raises(InvalidArgument, match="file and a folder"):
                store.append("r1", path, 0, b"x")
