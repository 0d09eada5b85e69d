import pytest

from runyard.core.errors import NotFound
from runyard.core.ports.stores import AssetStore, FileStore, RunStore
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import Snapshot
from runyard.core.records.runs import RunId
from runyard.testing.race import WRITERS, race
from runyard.testing.records import AT, a_file, a_run

RUN = RunId("r1")


class FileStoreSuite:
    """Contract tests of FileStore. Subclass it and supply `store`, and `runs` and `assets` on the same database."""

    @pytest.fixture
    def store(self) -> FileStore:
        raise NotImplementedError("supply a `store` fixture in the subclass")

    @pytest.fixture
    def runs(self) -> RunStore:
        raise NotImplementedError("supply a `runs` fixture in the subclass")

    @pytest.fixture
    def assets(self) -> AssetStore:
        raise NotImplementedError("supply an `assets` fixture in the subclass")

    @pytest.fixture(autouse=True)
    def run(self, runs: RunStore) -> None:
        runs.create(a_run(RUN))

    def test_files_are_listed_by_path_and_found_by_it(self, store: FileStore) -> None:
        files = [a_file("outputs/b.txt"), a_file("outputs/B.txt"), a_file("logs/ü"), a_file("outputs/" + "x" * 3000)]
        store.put(RUN, files)
        assert store.list(RUN) == sorted(files, key=lambda file: file.path)
        assert store.list(RUN, "outputs/b") == [files[0]]
        assert store.list(RUN, "outputs/%") == []
        assert store.find(RUN, "logs/ü") == files[2]
        assert store.find(RUN, files[3].path) == files[3]
        assert store.find(RUN, "outputs") is None

    def test_a_path_put_again_is_replaced(self, store: FileStore) -> None:
        store.put(RUN, [a_file("a", b"old"), a_file("b")])
        store.put(RUN, [a_file("a", b"new")])
        assert store.list(RUN) == [a_file("a", b"new"), a_file("b")]

    def test_putting_the_same_files_twice_changes_nothing(self, store: FileStore) -> None:
        for _ in range(2):
            store.put(RUN, [a_file("a"), a_file("b")])
        assert store.list(RUN) == [a_file("a"), a_file("b")]

    def test_no_file_of_eight_writers_is_lost(self, store: FileStore) -> None:
        race(lambda number: store.put(RUN, [a_file(f"f{number}"), a_file("shared")]))
        assert [file.path for file in store.list(RUN)] == [*(f"f{n}" for n in range(WRITERS)), "shared"]

    def test_an_unknown_run_is_not_found(self, store: FileStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.put(RunId("nobody"), [a_file("a")])
        with pytest.raises(NotFound):
            store.list(RunId("nobody"))
        with pytest.raises(NotFound):
            store.find(RunId("nobody"), "a")

    def test_a_snapshot_comes_back_and_is_stored_once(self, store: FileStore) -> None:
        snapshot = Snapshot("s1", (a_file("train.py"), a_file("lib/x.py", b"")), AT)
        race(lambda _: store.put_snapshot(snapshot))
        assert store.get_snapshot("s1") == snapshot
        with pytest.raises(NotFound, match="s2"):
            store.get_snapshot("s2")

    def test_used_blobs_are_those_of_runs_snapshots_and_assets(self, store: FileStore, assets: AssetStore) -> None:
        in_run, in_snapshot, in_asset = a_file("a", b"1"), a_file("b", b"2"), a_file("c", b"3")
        store.put(RUN, [in_run])
        store.put_snapshot(Snapshot("s1", (in_snapshot,), AT))
        assets.add("vision", AssetKind.MODEL, "m", {"files": [["c", in_asset.sha256, 1, 420]]}, {})
        assert store.used_blobs() == {in_run.sha256, in_snapshot.sha256, in_asset.sha256}
