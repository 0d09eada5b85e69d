"""Blobs are shared by all workspaces under the name of their hash. Knowing a hash must not open another's content."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from runyard.errors import InvalidArgument, NotFound
from runyard.model.assets import AssetKind
from runyard.model.files import Within
from runyard.model.runs import RunId, RunQuery, RunRecord
from runyard.planning.image import context_files, mapping_in
from runyard.ports.blobs import BlobStore
from runyard.ports.stores import AssetStore, FileStore, RunStore
from runyard.services.data.recent import Recent
from runyard.services.definition import OUTPUTS_OF

_asking: ContextVar[RunId | None] = ContextVar("run that asks", default=None)
_MOST_SHOWN, _SHOWN_SECONDS = 200_000, 7 * 86400.0
_MOST_RUNS, _RUN_SECONDS = 512, 600.0
_SNAPSHOT_PROPERTY = "ContentSnapshotId"


def ask_for_run(run_id: RunId | None) -> None:
    """The rest of this request is asked with the token of that run's script or node; None for the owner's."""
    _asking.set(run_id)


class CallersBlobs:
    """A blob store in which a run finds what its workspace has: what runs there have sent, and what its own snapshot,
    build context and resumed outputs hold. Any other blob is missing to it, until it sends the bytes itself.

    What was shown is remembered in memory: after a restart a run is asked to send once more.
    """

    def __init__(self, blobs: BlobStore, runs: RunStore, files: FileStore, assets: AssetStore) -> None:
        self._blobs, self._runs, self._files, self._assets = blobs, runs, files, assets
        self._shown: Recent[tuple[str, bytes], bool] = Recent(_MOST_SHOWN, _SHOWN_SECONDS)
        self._own: Recent[RunId, tuple[str, frozenset[str]]] = Recent(_MOST_RUNS, _RUN_SECONDS)

    def missing(self, names: Sequence[str]) -> list[str]:
        absent = set(self._blobs.missing(names))
        run_id = _asking.get()
        return [name for name in names if name in absent or (run_id is not None and not self._has(run_id, name))]

    def put(self, sha256: str, chunks: Iterable[bytes]) -> int:
        run_id = _asking.get()
        if run_id is not None and not self._has(run_id, sha256) and not self._blobs.missing([sha256]):
            size = _verified(sha256, chunks)
        else:
            size = self._blobs.put(sha256, chunks)
        self._show([sha256])
        return size

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        names: list[str] = []

        def noted() -> Iterator[tuple[str, bytes]]:
            for sha256, data in blobs:
                names.append(sha256)
                yield sha256, data

        self._blobs.put_many(noted())
        self._show(names)

    def put_files(
        self, paths: Sequence[Path], *, are_final: bool = False, within: Within | None = None
    ) -> list[tuple[str, int]]:
        stored = self._blobs.put_files(paths, are_final=are_final, within=within)
        self._show([sha256 for sha256, _ in stored])
        return stored

    def open(self, sha256: str) -> BinaryIO:
        return self._blobs.open(sha256)

    def local_path(self, sha256: str) -> Path | None:
        return self._blobs.local_path(sha256)

    def verified_path(self, sha256: str, *, size: int | None = None, always: bool = False) -> Path:
        return self._blobs.verified_path(sha256, size=size, always=always)

    def delete_unused(self, used: set[str], older_than_seconds: float) -> tuple[int, int]:
        deleted = self._blobs.delete_unused(used, older_than_seconds)
        for workspace, sha256 in self._shown.kept():
            if self._blobs.local_path(sha256.hex()) is None:  # `missing` would keep it from the next deletion
                self._shown.drop((workspace, sha256))
        return deleted

    def remove_abandoned(self) -> tuple[int, int]:
        return self._blobs.remove_abandoned()

    def require_readable(self, sha256: str) -> None:
        """NotFound, as of a blob that is not there, where the run that asks may not have it."""
        run_id = _asking.get()
        if run_id is not None and not self._has(run_id, sha256) and not self._is_named(self._seen(run_id)[0], sha256):
            raise NotFound(f"There is no blob {sha256}.", hint="Send it again.")

    def require_snapshot(self, snapshot_id: str) -> None:
        """The same of a snapshot: a run reads those of its workspace's runs."""
        run_id = _asking.get()
        if run_id is None or self._runs.get(run_id).snapshot_id == snapshot_id:
            return
        wanted = {_SNAPSHOT_PROPERTY: snapshot_id}
        query = RunQuery(self._seen(run_id)[0], include_children=True, properties=wanted, limit=100)
        # A script can set the property on a run that has no snapshot, so the record counts.
        if not any(run.snapshot_id == snapshot_id for run in self._runs.list(query)):
            raise NotFound(f"There is no snapshot {snapshot_id!r}.", hint="Submit the folder again to make it.")

    def _has(self, run_id: RunId, sha256: str) -> bool:
        workspace, own = self._seen(run_id)
        return sha256 in own or bool(self._shown.get((workspace, bytes.fromhex(sha256))))

    def _show(self, names: Iterable[str]) -> None:
        run_id = _asking.get()
        if run_id is not None:
            workspace = self._seen(run_id)[0]
            for sha256 in names:
                self._shown.put((workspace, bytes.fromhex(sha256)), True)

    def _seen(self, run_id: RunId) -> tuple[str, frozenset[str]]:
        """The run's workspace, and the blobs that its nodes make it from."""
        found = self._own.get(run_id)
        if found is None:
            run = self._runs.get(run_id)
            found = run.workspace, frozenset(self._made_of(run))
            self._own.put(run_id, found)
        return found

    def _made_of(self, run: RunRecord) -> Iterator[str]:
        environment = run.definition.get("environment") or {}
        yield from (entry.sha256 for entry in context_files(mapping_in(environment, "docker")))
        if run.snapshot_id:
            yield from (entry.sha256 for entry in self._files.get_snapshot(run.snapshot_id).entries)
        if resumed := (run.definition.get("runyard") or {}).get(OUTPUTS_OF):
            yield from (entry.sha256 for entry in self._files.list(RunId(resumed)))

    def _is_named(self, workspace: str, sha256: str) -> bool:
        """Whether it is of a model or a kept wheel of the workspace. The others of that one are shown from then on."""
        for kind, field, place in ((AssetKind.MODEL, "files", 1), (AssetKind.ENVIRONMENT_LOCK, "wheels", 2)):
            for asset in self._assets.list(workspace, kind):
                names = [row[place] for row in asset.body.get(field) or ()]
                if sha256 in names:
                    self._show(names)
                    return True
        return False


def _verified(sha256: str, chunks: Iterable[bytes]) -> int:
    """The size of a body that is the blob of that name, which is here. InvalidArgument where it is another."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    if digest.hexdigest() != sha256:
        raise InvalidArgument(
            f"The bytes sent as blob {sha256} have the sha256 {digest.hexdigest()}.", hint="Send the file again."
        )
    return size
