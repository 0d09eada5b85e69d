"""Runs go from one home to another with all that is theirs, and an archive can bring nothing else."""

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.access.snapshots import snapshot_id
from runyard.assets.workspaces import NewWorkspace, Workspaces
from runyard.core.errors import BlobDamaged, Conflict, InvalidArgument, NotFound
from runyard.core.principal import OWNER
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import FileEntry, Snapshot
from runyard.core.records.lineage import DatasetUse, Direction
from runyard.core.records.metrics import MetricBatch, MetricKind
from runyard.core.records.runs import RunId, RunStatus
from runyard.core.records.sweeps import Trial
from runyard.runs.transfer.archive import ArchiveReader, ArchiveWriter
from runyard.runs.transfer.exports import RunExports, TransferStores, fingerprint
from runyard.runs.transfer.imports import RunImports
from runyard.server.wiring.core import SystemClock
from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.blobs.store import FileBlobStore
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import AT, a_run
from tests.grants import access_to
from tests.storage.conformance.conftest import database_url, postgres_url

pytestmark = pytest.mark.slow

__all__ = ["database_url", "postgres_url"]
PIECE = 1000


class Place:
    """A home and its database, with what exports and imports runs."""

    def __init__(self, home: Path, url: str) -> None:
        home.mkdir()
        self.home, self.stores = home, open_stores(url)
        self.blobs, self.logs = FileBlobStore(home / "blobs"), FileLogStore(home / "logs")
        stores, clock = self.stores, SystemClock()
        around = TransferStores(
            stores.runs, stores.transfer, self.logs, self.blobs, stores.assets, clock, home / "incoming"
        )
        workspaces = Workspaces(stores.assets, stores.runs, clock, access_to(stores))
        workspaces.create(OWNER, "vision", NewWorkspace(), exist_ok=True)
        workspaces.create(OWNER, "other", NewWorkspace(), exist_ok=True)
        self.exports = RunExports(around, access_to(stores))
        self.imports = RunImports(around, self.exports, workspaces)

    def add_file(self, text: bytes) -> tuple[str, int]:
        file = self.home / "a-file"
        file.write_bytes(text)
        [stored] = self.blobs.put_files([file])
        return stored

    def add_run(self, run_id: str, **facts: Any) -> None:
        self.stores.runs.create(a_run(run_id, tags={"colour": "blue"}, properties={"author": "me"}, **facts))
        run = RunId(run_id)
        sha256, size = self.add_file(f"weights of {run_id}".encode())
        self.stores.files.put(run, [FileEntry("outputs/model.bin", sha256, size, 0o755)])
        numbers = MetricBatch("loss", MetricKind.SCALAR, [0.1 * n for n in range(700)], list(range(700)), [1.5] * 700)
        odd = MetricBatch("odd", MetricKind.SCALAR, [float("nan"), 2**70, "text"], [None, 1, 2], [1.0, 2.0, 3.0])
        row = MetricBatch("row", MetricKind.ROW, [{"x": 1}], [None], [1.0])
        self.stores.metrics.append(run, f"{run_id}~0-1-a.jsonl", 0, 100, [numbers, odd, row])
        self.stores.metrics.append(run, f"{run_id}~3-1-a.jsonl", 0, 50, [replace(numbers)], rank=3)
        self.stores.lineage.record([DatasetUse(run, Direction.INPUT, "in", "d1", "digits", 1, "Mount", AT)])
        self.logs.append(run_id, "azureml-logs/70_driver_log.txt", 0, b"a line\n" * 1000)
        self.end(run_id)

    def end(self, run_id: str) -> None:
        run = self.stores.runs.get(RunId(run_id))
        self.stores.runs.move(run, RunStatus.COMPLETED, environment_lock="numpy==1.0\n")

    def add_sweep(self) -> None:
        sha256, size = self.add_file(b"print()")
        entries = (FileEntry("train.py", sha256, size),)
        snapshot = Snapshot(snapshot_id(entries), entries, AT)
        self.stores.files.put_snapshot(snapshot)
        self.add_run("HD_1", type="hyperdrive", snapshot_id=snapshot.id)
        self.stores.trials.add([Trial(RunId("HD_1"), 0, {"lr": 0.1}), Trial(RunId("HD_1"), 1, {"lr": 0.2})])
        for number in range(2):
            self.add_run(f"HD_1_{number}", parent_id="HD_1", root_id="HD_1", snapshot_id=snapshot.id)
        sha256, size = self.add_file(b"weights of HD_1_1")
        body = {"run_id": "HD_1_1", "files": [["model.bin", sha256, size, 0o644]]}
        self.stores.assets.add("vision", AssetKind.MODEL, "net", body, {"stage": "test"})
        self.stores.assets.add("vision", AssetKind.MODEL, "net", body, {})

    def archive(self, *run_ids: str) -> bytes:
        return b"".join(self.exports.export(OWNER, [RunId(run_id) for run_id in run_ids]))

    def take(self, archive: bytes, workspace: str = "vision") -> Any:
        pieces = [archive[start : start + PIECE] for start in range(0, len(archive), PIECE)]
        return self.imports.take(OWNER, workspace, iter(pieces))

    def points(self, run_id: str) -> str:
        return repr([self.stores.metrics.series(RunId(run_id)), self.stores.metrics.series(RunId(run_id), rank=3)])

    def is_untouched(self) -> bool:
        incoming = self.home / "incoming"
        return (
            not self.logs.sizes("r1")
            and not list(incoming.glob("*"))
            and not any(run.id for run in self.stores.runs.descendants(RunId("HD_1")))
            and not _has(self, "r1")
        )


def _has(place: Place, run_id: str) -> bool:
    try:
        place.stores.runs.get(RunId(run_id))
    except NotFound:
        return False
    return True


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "here", f"sqlite:///{tmp_path}/here.db")
    yield place
    place.stores.close()


@pytest.fixture
def there(tmp_path: Path, database_url: str) -> Iterator[Place]:
    """On SQLite, and on PostgreSQL."""
    place = Place(tmp_path / "there", database_url)
    yield place
    place.stores.close()


def test_a_sweep_moves_with_its_children_points_logs_files_and_models_and_back(here, there, tmp_path):
    here.add_sweep()
    done = there.take(here.archive("HD_1"))
    assert (done.runs, done.models) == (["HD_1", "HD_1_0", "HD_1_1"], ["net:2", "net:1"])
    for run_id in done.runs:
        assert there.exports.described(RunId(run_id)) == here.exports.described(RunId(run_id))
        assert there.points(run_id) == here.points(run_id)
        assert there.stores.metrics.summaries([RunId(run_id)]) == here.stores.metrics.summaries([RunId(run_id)])
        before, after = here.stores.runs.get(RunId(run_id)), there.stores.runs.get(RunId(run_id))
        assert replace(after, sequence=before.sequence) == before
        assert there.stores.runs.events(RunId(run_id)) == here.stores.runs.events(RunId(run_id))
    assert there.stores.trials.list(RunId("HD_1")) == here.stores.trials.list(RunId("HD_1"))
    models = [place.stores.assets.list("vision", AssetKind.MODEL) for place in (here, there)]
    assert models[0] == models[1]
    assert there.blobs.open(models[1][0].body["files"][0][1]).read() == b"weights of HD_1_1"
    back = Place(tmp_path / "back", f"sqlite:///{tmp_path}/back.db")
    back.take(there.archive("HD_1"))
    assert back.points("HD_1_1") == here.points("HD_1_1")
    back.stores.close()


def test_what_is_there_and_equal_is_skipped_and_what_differs_is_refused(here, there):
    here.add_sweep()
    archive = here.archive("HD_1")
    there.take(archive)
    again = there.take(archive)
    assert (again.runs, again.models) == ([], [])
    assert (again.known_runs, again.known_models) == (["HD_1", "HD_1_0", "HD_1_1"], ["net:2", "net:1"])
    there.stores.runs.update(RunId("HD_1_0"), tags={"colour": "red"})
    with pytest.raises(Conflict, match="'HD_1_0' is here already and differs"):
        there.take(archive)
    with pytest.raises(Conflict, match="in workspace 'vision'"):
        there.take(archive, workspace="other")


def test_numbers_are_kept_where_they_are_free_and_counted_on(here, there):
    for run_id in ("r1", "r2", "r3"):
        here.add_run(run_id)
    there.add_run("own")
    there.take(here.archive("r1", "r3"))
    numbers = {run_id: there.stores.runs.get(RunId(run_id)).number for run_id in ("own", "r1", "r3")}
    assert numbers == {"own": 1, "r1": 2, "r3": 3}
    there.add_run("next")
    assert there.stores.runs.get(RunId("next")).number == 4
    assert there.take(here.archive("r1")).known_runs == ["r1"]


def test_only_ended_and_whole_runs_are_exported(here):
    here.stores.runs.create(a_run("open"))
    with pytest.raises(Conflict, match="'open' is still"):
        here.exports.export(OWNER, [RunId("open")])
    with pytest.raises(NotFound):
        here.exports.export(OWNER, [RunId("nobody")])
    here.add_run("r1")
    [entry] = here.stores.files.list(RunId("r1"))
    here.blobs.local_path(entry.sha256).unlink()
    with pytest.raises(BlobDamaged, match=r"'outputs/model.bin' of run r1 is missing or damaged"):
        here.exports.export(OWNER, [RunId("r1")])


def test_a_child_without_its_parent_is_refused(here, there):
    here.add_sweep()
    with pytest.raises(InvalidArgument, match="child of 'HD_1', which is neither in the archive nor in workspace"):
        there.take(here.archive("HD_1_0"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Place]:
    """What is refused before the database is asked needs only one of them."""
    place = Place(tmp_path / "elsewhere", f"sqlite:///{tmp_path}/elsewhere.db")
    yield place
    place.stores.close()


Change = Callable[[str, bytes], bytes | None]


def altered(archive: bytes, change: Change) -> bytes:
    """The archive with members changed or, where None comes back, left out; its end hash is right."""
    writer = ArchiveWriter()
    made = b""
    for member in ArchiveReader(iter([archive])).members():
        data = change(member.name, b"".join(member.pieces))
        if data is not None:
            made += b"".join(writer.member(member.name, len(data), [data]))
    return made + b"".join(writer.end())


def in_run(*path: str, value: Any) -> Change:
    """Sets one value of run.json; the last part of the path may be a place in a list."""

    def change(name: str, data: bytes) -> bytes:
        if not name.endswith("run.json"):
            return data
        body = json.loads(data)
        inner = body
        for part in path[:-1]:
            inner = inner[int(part)] if isinstance(inner, list) else inner[part]
        last = path[-1]
        inner[int(last) if isinstance(inner, list) else last] = value
        return json.dumps(body).encode()

    return change


def left_out(which: str) -> Change:
    return lambda name, data: None if name.startswith(which) else data


def replaced(which: str, content: bytes) -> Change:
    return lambda name, data: content if name.endswith(which) else data


HOSTILE = {
    "a file outside": in_run("rows", "files", "0", "path", value="../../etc/passwd"),
    "an absolute file": in_run("rows", "files", "0", "path", value="/etc/passwd"),
    "a log outside": in_run("logs", "0", "0", value="../../x"),
    "an absolute log": in_run("logs", "0", "0", value="/etc/passwd"),
    "another id": in_run("rows", "run", "id", value="r2"),
    "an id that is a path": in_run("rows", "run", "id", value="../r1"),
    "a run that would start": in_run("rows", "run", "status", value="Queued"),
    "a status that there is not": in_run("rows", "run", "status", value="Great"),
    "an attempt of another run": in_run("rows", "run", "ticket", value="r2.1"),
    "a parent elsewhere": in_run("rows", "run", "parent_id", value="r2"),
    "a parent that is itself": in_run("rows", "run", "parent_id", value="r1"),
    "an experiment that is a path": in_run("rows", "run", "experiment", value="../x"),
    "a time that is none": in_run("rows", "run", "created_at", value="now"),
    "a number too large": in_run("rows", "run", "number", value=2**40),
    "tags that are no texts": in_run("rows", "run", "tags", value={"a": 1}),
    "a definition that is none": in_run("rows", "details", "definition", value=[1]),
    "a size that is not the file's": in_run("rows", "files", "0", "size", value=1),
    "a journal of another run": in_run("rows", "journals", "0", "journal", value="r2~0-1-a.jsonl"),
    "a column too many": in_run("rows", "run", "sequence", value=1),
    "a snapshot that is not there": in_run("rows", "run", "snapshot_id", value="x"),
    "metrics of another hash": replaced("metrics.jsonl", b'{"metric": {}}\n'),
    "a log of another hash": replaced("logs/0", b"other"),
    "a file of another hash": lambda name, data: b"other" if name.startswith("blobs/") else data,
    "no files": left_out("blobs/"),
    "no rows": left_out("runs/0/run.json"),
    "no metrics": left_out("runs/0/metrics"),
    "no head": left_out("runyard-export.json"),
    "rows that are no JSON": replaced("run.json", b"{"),
    "rows nested without end": replaced("run.json", b"[" * 200_000),
    "a model of another run": replaced("models.json", b'[{"name": "m"}]'),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_an_archive_that_cannot_be_right_is_refused_and_stores_nothing(here, elsewhere, change):
    here.add_run("r1")
    with pytest.raises(InvalidArgument):
        elsewhere.take(altered(here.archive("r1"), change))
    assert elsewhere.is_untouched()


def without_later_columns(name: str, data: bytes) -> bytes:
    """As a version wrote it that did not have them yet."""
    if not name.endswith("run.json"):
        return data
    body = json.loads(data)
    del body["rows"]["run"]["job_id"], body["rows"]["run"]["created_by"]
    return json.dumps(body).encode()


def test_an_archive_of_an_earlier_version_is_taken(here, elsewhere):
    here.add_run("r1")
    elsewhere.take(altered(here.archive("r1"), without_later_columns))
    run = elsewhere.stores.runs.get(RunId("r1"))
    assert (run.job_id, run.created_by) == (None, "")


def member(name: str, **facts: Any) -> bytes:
    info = tarfile.TarInfo(name)
    for key, value in facts.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "first",
    [
        member("../../etc/passwd"),
        member("/etc/passwd"),
        member("runs/0/run.json", type=b"2", linkname="/etc/passwd"),
        member("runs/0/run.json", type=b"1", linkname="/etc/passwd"),
        member("runs/0/logs/0", type=b"S", size=1 << 40),
        member("blobs/" + "0" * 64, type=b"5"),
        member("x" * 120),
        b"PK\x03\x04" + bytes(508),
        bytes(1024),
        b"",
    ],
)
def test_a_tar_of_something_else_is_refused(elsewhere, first):
    with pytest.raises(InvalidArgument):
        elsewhere.take(first + bytes(4096))
    assert elsewhere.is_untouched()


def test_an_archive_that_was_cut_or_altered_anywhere_is_refused(here, elsewhere):
    here.add_run("r1")
    archive = here.archive("r1")
    for end in range(0, len(archive) - 1536, len(archive) // 7):
        with pytest.raises(InvalidArgument):
            elsewhere.take(archive[:end])
    for place in range(0, len(archive) - 2048, len(archive) // 11):
        wrong = bytearray(archive)
        wrong[place] ^= 0x55
        with pytest.raises(InvalidArgument):
            elsewhere.take(bytes(wrong))
    assert elsewhere.is_untouched()
    elsewhere.take(archive)
    same = (fingerprint(place.exports.described(RunId("r1"))) for place in (here, elsewhere))
    assert len(set(same)) == 1


def _model(**changes: Any) -> Change:
    def change(name: str, data: bytes) -> bytes:
        return data if name != "models.json" else json.dumps([json.loads(data)[0] | changes]).encode()

    return change


def test_a_model_whose_id_is_taken_is_refused_and_its_run_not_stored(here, there):
    here.add_sweep()
    taken = there.stores.assets.add("other", AssetKind.MODEL, "net", {"files": []}, {})
    with pytest.raises(Conflict, match="net:2, or its id, is taken"):
        there.take(altered(here.archive("HD_1"), _model(id=taken.id)))
    assert not any(_has(there, run_id) for run_id in ("HD_1", "HD_1_0", "HD_1_1"))
    assert not list((there.home / "logs").iterdir())
    assert there.take(here.archive("HD_1")).runs == ["HD_1", "HD_1_0", "HD_1_1"]


def test_metrics_of_a_later_run_that_cannot_be_right_store_no_earlier_one(here, there):
    here.add_run("r1")
    here.add_run("r2")
    wrong = b'{"metric": {}}\n'

    def change(name: str, data: bytes) -> bytes:
        if name == "runs/1/metrics.jsonl":
            return wrong
        if name != "runs/1/run.json":
            return data
        return json.dumps(json.loads(data) | {"metrics": [len(wrong), hashlib.sha256(wrong).hexdigest()]}).encode()

    with pytest.raises(InvalidArgument, match="does not fit that table"):
        there.take(altered(here.archive("r1", "r2"), change))
    assert there.is_untouched()
    assert not _has(there, "r2")
