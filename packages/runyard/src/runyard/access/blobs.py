"""Access to blobs per caller. All workspaces share the blob store, and knowing a hash must not give access to the
content of another workspace."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runyard.access.authorization import Access
from runyard.core.errors import BlobsMissing, InvalidArgument, NotFound
from runyard.core.expiring_cache import ExpiringCache
from runyard.core.names import check_sha256
from runyard.core.policy import Action
from runyard.core.ports.blobs import BlobStore
from runyard.core.ports.stores import AssetStore, FileStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import AllowedFolders, FileEntry
from runyard.core.records.runs import RunId, RunQuery, RunRecord

_MOST_SHOWN, _SHOWN_SECONDS = 200_000, 7 * 86400.0
_MOST_RUNS, _RUN_SECONDS = 512, 600.0
_SNAPSHOT_PROPERTY = "ContentSnapshotId"


class CallerBlobs:
    """Blobs that a caller may see. A run sees the blobs that runs of its workspace have uploaded, and those of its own
    snapshot, build context and resumed outputs. Other blobs are missing for it until it uploads them itself.

    Uploads are remembered in memory: after a restart of the service a run may have to upload again.
    """

    def __init__(self, stored: BlobStore, runs: RunStore, files: FileStore, assets: AssetStore, access: Access) -> None:
        self.stored = stored
        """The store of all blobs, for the service's own work."""
        self._runs, self._files, self._assets, self._access = runs, files, assets, access
        self._shown: ExpiringCache[tuple[str, bytes], bool] = ExpiringCache(_MOST_SHOWN, _SHOWN_SECONDS)
        self._own: ExpiringCache[RunId, tuple[str, frozenset[str]]] = ExpiringCache(_MOST_RUNS, _RUN_SECONDS)

    def missing(self, who: Principal, names: Sequence[str]) -> list[str]:
        absent = set(self.stored.missing(names))
        return [name for name in names if name in absent or not self._has(who, name)]

    def require(self, who: Principal, entries: Sequence[FileEntry]) -> None:
        """Raises BlobsMissing if the caller must upload some first, and InvalidArgument for an entry whose size is not
        that of its blob: a check of the home would report the blob as damaged."""
        missing = self.missing(who, list(dict.fromkeys(entry.sha256 for entry in entries)))
        if missing:
            raise BlobsMissing(
                f"{len(missing)} blobs are not here yet.", hint="Send them, then ask again.", sha256=missing
            )
        for entry in entries:
            path = self.stored.local_path(entry.sha256)
            size = entry.size if path is None else path.stat().st_size
            if size != entry.size:
                problem = f"The size of {entry.path!r} is given as {entry.size} bytes, but its blob has {size}."
                raise InvalidArgument(problem, hint="Send the size of the content that was hashed.")

    def put(self, who: Principal, sha256: str, chunks: Iterable[bytes]) -> int:
        if not self._has(who, sha256) and not self.stored.missing([sha256]):
            size = _verified(sha256, chunks)
        else:
            size = self.stored.put(sha256, chunks)
        self._show(who, [sha256])
        return size

    def put_many(self, who: Principal, blobs: Iterable[tuple[str, bytes]]) -> None:
        names: list[str] = []

        def noted() -> Iterator[tuple[str, bytes]]:
            for sha256, data in blobs:
                names.append(sha256)
                yield sha256, data

        self.stored.put_many(noted())
        self._show(who, names)

    def put_files(
        self, who: Principal, paths: Sequence[Path], *, are_final: bool = False, within: AllowedFolders | None = None
    ) -> list[tuple[str, int]]:
        stored = self.stored.put_files(paths, are_final=are_final, within=within)
        self._show(who, [sha256 for sha256, _ in stored])
        return stored

    def delete_unused(self, used: set[str], older_than_seconds: float) -> tuple[int, int]:
        deleted = self.stored.delete_unused(used, older_than_seconds)
        for workspace, sha256 in self._shown.kept():
            if self.stored.local_path(sha256.hex()) is None:  # not `missing`, which would mark it as used
                self._shown.drop((workspace, sha256))
        return deleted

    def require_readable(self, who: Principal, sha256: str) -> None:
        """Raises NotFound, as for a missing blob, if the caller may not read it."""
        if not self._access.sees(who, Action.READ_BLOB, f"blob {sha256}", lambda: self._is_readable(who, sha256)):
            raise NotFound(f"There is no blob {sha256}.", hint="Send it again.")

    def require_snapshot(self, who: Principal, snapshot_id: str) -> None:
        """The same for a snapshot: a run may read those of runs of its workspace."""
        name = f"snapshot {snapshot_id!r}"
        if not self._access.sees(who, Action.READ_SNAPSHOT, name, lambda: self._is_readable_snapshot(who, snapshot_id)):
            raise NotFound(f"There is no snapshot {snapshot_id!r}.", hint="Submit the folder again to make it.")

    def _is_readable(self, who: Principal, sha256: str) -> bool:
        check_sha256(sha256)
        return self._has(who, sha256) or self._is_named(who, sha256)

    def _is_readable_snapshot(self, who: Principal, snapshot_id: str) -> bool:
        assert who.run_id is not None
        if self._runs.get(who.run_id).snapshot_id == snapshot_id:
            return True
        wanted = {_SNAPSHOT_PROPERTY: snapshot_id}
        query = RunQuery(self._workspace_and_blobs(who.run_id)[0], include_children=True, properties=wanted, limit=100)
        # A script can set the property on a run without a snapshot, so the record decides.
        return any(run.snapshot_id == snapshot_id for run in self._runs.list(query))

    def _has(self, who: Principal, sha256: str) -> bool:
        if self._access.may_read_every_blob(who):
            return True
        if who.run_id is None:
            return False
        workspace, own = self._workspace_and_blobs(who.run_id)
        return sha256 in own or bool(self._shown.get((workspace, bytes.fromhex(sha256))))

    def _show(self, who: Principal, names: Iterable[str]) -> None:
        if who.run_id is not None:
            workspace = self._workspace_and_blobs(who.run_id)[0]
            for sha256 in names:
                self._shown.put((workspace, bytes.fromhex(sha256)), True)

    def _workspace_and_blobs(self, run_id: RunId) -> tuple[str, frozenset[str]]:
        """Workspace of the run, and the blobs that its nodes need."""
        found = self._own.get(run_id)
        if found is None:
            run = self._runs.get(run_id)
            found = run.workspace, frozenset(self._needed_blobs(run))
            self._own.put(run_id, found)
        return found

    def _needed_blobs(self, run: RunRecord) -> Iterator[str]:
        context = run.definition.environment.docker.build_context
        yield from (entry.sha256 for entry in (context.files if context else ()))
        if run.snapshot_id:
            yield from (entry.sha256 for entry in self._files.get_snapshot(run.snapshot_id).entries)
        if resumed := run.definition.runyard.outputs_of:
            yield from (entry.sha256 for entry in self._files.list(RunId(resumed)))

    def _is_named(self, who: Principal, sha256: str) -> bool:
        """True if it belongs to a model or a stored wheel of the workspace. Also shows the other blobs of that
        asset."""
        assert who.run_id is not None
        workspace = self._workspace_and_blobs(who.run_id)[0]
        for kind, field, place in ((AssetKind.MODEL, "files", 1), (AssetKind.ENVIRONMENT_LOCK, "wheels", 2)):
            for asset in self._assets.list(workspace, kind):
                names = [row[place] for row in asset.body.get(field) or ()]
                if sha256 in names:
                    self._show(who, names)
                    return True
        return False


def _verified(sha256: str, chunks: Iterable[bytes]) -> int:
    """Size of an upload of a blob that is already stored. Raises InvalidArgument if its hash differs."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    if digest.hexdigest() != sha256:
        raise InvalidArgument(
            f"The bytes sent as blob {sha256} have the sha256 {digest.hexdigest()}.", hint="Send the file again."
        )
    return size
