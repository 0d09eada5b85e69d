import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypedDict

from runyard.access.authorization import Access
from runyard.core.errors import BlobDamaged, Conflict, InvalidArgument, NotFound
from runyard.core.policy import Action
from runyard.core.ports.blobs import BlobStore, LogStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import AssetStore, RunStore, RunTransfer
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.runs import RunId, RunRecord
from runyard.core.version import VERSION
from runyard.runs.transfer.archive import FORMAT, HEAD, MODELS, ArchiveWriter
from runyard.storage.blobs.content import PIECE_BYTES


@dataclass(frozen=True)
class TransferStores:
    """Stores that exports and imports use."""

    runs: RunStore
    transfer: RunTransfer
    logs: LogStore
    blobs: BlobStore
    assets: AssetStore
    clock: Clock
    incoming: Path
    """Folder for temporary files; emptied when the service starts."""


class RunDescription(TypedDict):
    """`run.json` of an archive: the rows of the run, and sizes and hashes of its metrics and logs."""

    rows: dict[str, Any]
    metrics: list[Any]
    logs: list[list[Any]]


class RunExports:
    """Writes runs, their children and their models to an archive."""

    def __init__(self, stores: TransferStores, access: Access) -> None:
        self._stores, self._access = stores, access

    def export(self, who: Principal, run_ids: Sequence[RunId]) -> Iterator[bytes]:
        """Archive of the runs and their children, in pieces.

        Before the first piece: raises NotFound, Conflict for an unfinished run, BlobDamaged for a damaged file.
        """
        self._access.service(who, Action.MOVE_RUNS)
        found = self._chosen(run_ids)
        models = self._models(found)
        wanted = self._blobs_of(found, models)
        return self._pieces(found, models, wanted)

    def described(self, run_id: RunId, metrics: IO[bytes] | None = None) -> RunDescription:
        """`run.json` of a run. Writes its metrics to `metrics`."""
        digest, size = hashlib.sha256(), 0
        for line in self._stores.transfer.metric_lines(run_id):
            digest.update(line)
            size += len(line)
            if metrics is not None:
                metrics.write(line)
        return {
            "rows": self._stores.transfer.rows(run_id),
            "metrics": [size, digest.hexdigest()],
            "logs": [
                [path, size, _hash(self._log(run_id, path, size))]
                for path, size in self._stores.logs.sizes(run_id).items()
            ],
        }

    def _chosen(self, run_ids: Sequence[RunId]) -> list[RunRecord]:
        if not run_ids:
            raise InvalidArgument("No run is named.", hint="Name the runs to export.")
        found: dict[RunId, RunRecord] = {}
        for run_id in run_ids:
            run = self._stores.runs.get(run_id)
            found |= {one.id: one for one in (run, *self._stores.runs.descendants(run_id))}
        chosen = sorted(found.values(), key=lambda run: run.sequence)
        for run in chosen:
            if not run.status.is_terminal:
                raise Conflict(f"Run {run.id!r} is still {run.status}.", hint="Wait for its end, or cancel it.")
            if run.workspace != chosen[0].workspace:
                raise InvalidArgument(
                    f"Runs {chosen[0].id!r} and {run.id!r} are of different workspaces.", hint="Export them apart."
                )
        return chosen

    def _models(self, found: Sequence[RunRecord]) -> list[Asset]:
        ids = {run.id for run in found}
        listed = self._stores.assets.list(found[0].workspace, AssetKind.MODEL)
        return [model for model in listed if model.body.get("run_id") in ids]

    def _blobs_of(self, found: Sequence[RunRecord], models: Sequence[Asset]) -> dict[str, int]:
        wanted: dict[str, int] = {}
        for run in found:
            rows = self._stores.transfer.rows(run.id)
            entries = [(file["path"], file["sha256"], file["size"]) for file in rows["files"]]
            entries += [tuple(entry[:3]) for entry in (rows["snapshot"] or {"entries": ()})["entries"]]
            for path, sha256, size in entries:
                self._require(f"{path!r} of run {run.id}", sha256, size)
                wanted[sha256] = size
        for model in models:
            for path, sha256, size, *_ in model.body["files"]:
                self._require(f"{path!r} of model {model.name}:{model.version}", sha256, size)
                wanted[sha256] = size
        return wanted

    def _require(self, name: str, sha256: str, size: int) -> None:
        try:
            self._stores.blobs.verified_path(sha256, size=size)
        except (NotFound, BlobDamaged) as error:
            raise BlobDamaged(f"The file {name} is missing or damaged.", hint="Run: runyard check --repair") from error

    def _pieces(self, found: Sequence[RunRecord], models: Sequence[Asset], wanted: dict[str, int]) -> Iterator[bytes]:
        writer = ArchiveWriter()
        head = {
            "format": FORMAT,
            "runyard": VERSION,
            "workspace": found[0].workspace,
            "runs": [run.id for run in found],
            "exported_at": self._stores.clock.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        yield from writer.json(HEAD, head)
        for sha256, size in sorted(wanted.items()):
            yield from writer.member(f"blobs/{sha256}", size, self._blob(sha256))
        for number, run in enumerate(found):
            yield from self._run(writer, f"runs/{number}", run.id)
        yield from writer.json(MODELS, [model_json(model) for model in models])
        yield from writer.end()

    def _run(self, writer: ArchiveWriter, folder: str, run_id: RunId) -> Iterator[bytes]:
        self._stores.incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._stores.incoming) as metrics:
            described = self.described(run_id, metrics)
            for number, (path, size, _) in enumerate(described["logs"]):
                yield from writer.member(f"{folder}/logs/{number}", size, self._log(run_id, path, size))
            metrics.seek(0)
            pieces = iter(lambda: metrics.read(PIECE_BYTES), b"")
            yield from writer.member(f"{folder}/metrics.jsonl", described["metrics"][0], pieces)
        yield from writer.json(f"{folder}/run.json", described)

    def _blob(self, sha256: str) -> Iterator[bytes]:
        with self._stores.blobs.open(sha256) as opened:
            while piece := opened.read(PIECE_BYTES):
                yield piece

    def _log(self, run_id: RunId, path: str, size: int) -> Iterator[bytes]:
        for offset in range(0, size, PIECE_BYTES):
            yield self._stores.logs.read(run_id, path, offset, min(PIECE_BYTES, size - offset))


def fingerprint(described: RunDescription) -> str:
    """Hash of a run that is equal on all services: without its number and the time its snapshot was stored."""
    rows = described["rows"]
    run = {name: value for name, value in rows["run"].items() if name != "number"}
    snapshot = rows["snapshot"] and {name: value for name, value in rows["snapshot"].items() if name != "created_at"}
    text = json.dumps({**described, "rows": {**rows, "run": run, "snapshot": snapshot}}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def model_json(model: Asset) -> dict[str, Any]:
    return {
        "id": model.id,
        "name": model.name,
        "version": model.version,
        "created_at": model.created_at.isoformat(),
        "modified_at": model.modified_at.isoformat(),
        "body": dict(model.body),
        "tags": dict(model.tags),
    }


def _hash(pieces: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
