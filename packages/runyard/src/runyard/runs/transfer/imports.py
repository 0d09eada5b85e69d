import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runyard.access.snapshots import checked_entries, snapshot_id
from runyard.assets.workspaces import Workspaces
from runyard.core.disk import disk_errors_explained
from runyard.core.errors import AlreadyExists, BlobDamaged, Conflict, InvalidArgument, NotFound
from runyard.core.lookups import find_run
from runyard.core.names import check_asset_name, check_experiment_name, check_journal_name, check_run_id
from runyard.core.names import check_relative_path as check_path
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.files import FileEntry
from runyard.core.records.runs import AttemptId, RunId, run_of
from runyard.runs.transfer.archive import FORMAT, HEAD, MODELS, ArchiveMember, ArchiveReader, parsed_json
from runyard.runs.transfer.exports import RunDescription, RunExports, TransferStores, fingerprint, model_json
from runyard.storage.blobs.content import PIECE_BYTES

_LONGEST_LINE = 256 << 20
_LONGEST_ID = 100
_MODEL = {"id": str, "name": str, "version": int, "body": dict, "tags": dict, "created_at": str, "modified_at": str}


@dataclass
class Imported:
    """Ids of runs and NAME:VERSION of models: new ones, and known ones that were here already and are equal."""

    workspace: str
    runs: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    known_runs: list[str] = field(default_factory=list)
    known_models: list[str] = field(default_factory=list)


class RunImports:
    """Reads runs and models from an archive."""

    def __init__(self, stores: TransferStores, exports: RunExports, workspaces: Workspaces) -> None:
        self._stores, self._exports, self._workspaces = stores, exports, workspaces

    def take(self, who: Principal, workspace: str, pieces: Iterable[bytes]) -> Imported:
        """Store the runs of an archive under their ids. Safe to repeat.

        The whole archive is read and checked first. Raises InvalidArgument for a damaged archive, and Conflict for a
        run or model that is here already and differs; nothing is stored then.
        """
        self._workspaces.enter(who, Action.MOVE_RUNS, workspace)
        self._stores.incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            disk_errors_explained(self._stores.incoming),
            tempfile.TemporaryDirectory(prefix="import-", dir=self._stores.incoming) as folder,
        ):
            archive = _Spool(Path(folder), self._put_blob)
            archive.read(pieces)
            return _Import(self._stores, self._exports, workspace, archive).store()

    def _put_blob(self, sha256: str, pieces: Iterator[bytes]) -> None:
        self._stores.blobs.put(sha256, pieces)


class _Spool:
    """Members of an archive in a temporary folder; blobs go to the blob store at once."""

    def __init__(self, folder: Path, put_blob: Callable[[str, Iterator[bytes]], None]) -> None:
        self._folder, self._put_blob = folder, put_blob
        self.run_ids: list[RunId] = []
        self.models: list[Any] = []
        self._hashes: dict[str, list[Any]] = {}

    def read(self, pieces: Iterable[bytes]) -> None:
        for member in ArchiveReader(pieces).members():
            if (member.name == HEAD) != (not self.run_ids):
                raise InvalidArgument("The archive does not begin as an archive of runs does.")
            if member.name == HEAD:
                self._read_head(member.json())
            elif member.name == MODELS:
                self.models = _a_list(member.json(), MODELS)
            elif member.name.startswith("blobs/"):
                self._put_blob(member.name.removeprefix("blobs/"), member.pieces)
            else:
                self._keep(member)

    def described(self, number: int) -> RunDescription:
        """`run.json` of a run, checked against the logs and metrics in the archive."""
        name = f"runs/{number}/run.json"
        if name not in self._hashes:
            raise InvalidArgument(f"The archive lacks {name}.")
        described = parsed_json(name, self.file(name).read_bytes())
        if not isinstance(described, dict) or described.keys() != {"rows", "metrics", "logs"}:
            raise InvalidArgument(f"{name} of the archive does not describe a run.")
        listed = [("metrics.jsonl", described["metrics"])]
        for index, row in enumerate(_a_list(described["logs"], name)):
            is_log = isinstance(row, list) and len(row) == 3 and isinstance(row[0], str)
            if not is_log or check_path(row[0], "log path") != row[0]:
                raise InvalidArgument(f"{name} of the archive has a log without a right path.")
            listed.append((f"logs/{index}", row[1:]))
        for inner, facts in listed:
            if facts != self._hashes.get(f"runs/{number}/{inner}"):
                raise InvalidArgument(f"runs/{number}/{inner} of the archive is missing or has another hash.")
        return RunDescription(rows=described["rows"], metrics=described["metrics"], logs=described["logs"])

    def file(self, name: str) -> Path:
        return self._folder / name.replace("/", "-")

    def lines(self, name: str) -> Iterator[bytes]:
        with self.file(name).open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                yield line

    def _read_head(self, head: Any) -> None:
        if not isinstance(head, dict) or not isinstance(head.get("format"), int):
            raise InvalidArgument("The archive does not begin as an archive of runs does.")
        if head["format"] > FORMAT:
            raise InvalidArgument(
                f"The archive has format {head['format']}; this release knows up to {FORMAT}.",
                hint="Import it with the release that made it, or a later one.",
            )
        ids = [check_run_id(str(run_id)) for run_id in _a_list(head.get("runs"), HEAD)]
        if not ids or len(set(ids)) < len(ids):
            raise InvalidArgument("The archive names no run, or one of them twice.")
        self.run_ids = [RunId(run_id) for run_id in ids]

    def _keep(self, member: ArchiveMember) -> None:
        if member.name in self._hashes or int(member.name.split("/")[1]) >= len(self.run_ids):
            raise InvalidArgument(f"The archive has {member.name} twice, or for a run that it does not name.")
        digest = hashlib.sha256()
        with self.file(member.name).open("xb") as file:
            for piece in member.pieces:
                digest.update(piece)
                file.write(piece)
        self._hashes[member.name] = [member.size, digest.hexdigest()]


class _Import:
    def __init__(self, stores: TransferStores, exports: RunExports, workspace: str, archive: _Spool) -> None:
        self._stores, self._exports, self._workspace, self._archive = stores, exports, workspace, archive
        self._done = Imported(workspace)

    def store(self) -> Imported:
        new = [number for number, run_id in enumerate(self._archive.run_ids) if self._is_new(number, run_id)]
        self._refuse_cycles()
        models = [model for given in self._archive.models if (model := self._new_model(given)) is not None]
        stored: list[Asset] = []
        try:
            for number in new:
                self._store(number)
            for model in models:
                self._stores.transfer.insert_model(model)
                stored.append(model)
        except Exception:
            self._undo(stored)
            raise
        self._done.models += [f"{model.name}:{model.version}" for model in stored]
        return self._done

    def _undo(self, models: list[Asset]) -> None:
        """Delete what was stored, after an error that only the database could find."""
        for model in models:
            self._stores.assets.delete(self._workspace, AssetKind.MODEL, model.name, model.version)
        for run_id in reversed(self._done.runs):
            self._stores.runs.delete(RunId(run_id))
            self._stores.logs.delete(run_id)

    def _is_new(self, number: int, run_id: RunId) -> bool:
        described = self._archive.described(number)
        self._check(run_id, described["rows"])
        there = find_run(self._stores.runs, run_id)
        if there is None:
            return True
        if there.workspace != self._workspace:
            raise Conflict(
                f"Run {run_id!r} is here already, in workspace {there.workspace!r}.",
                hint=f"Import it there: --workspace {there.workspace}",
            )
        if not there.status.is_terminal or fingerprint(self._exports.described(run_id)) != fingerprint(described):
            raise Conflict(
                f"Run {run_id!r} is here already and differs from the one in the archive.",
                hint="Delete the one here first, if the archive's is the right one: runyard runs delete",
            )
        self._done.known_runs.append(run_id)
        return False

    def _store(self, number: int) -> None:
        """Store logs first, rows last: a run that can be read is complete."""
        described = self._archive.described(number)
        run_id = self._archive.run_ids[number]
        self._stores.logs.delete(run_id)
        for index, (path, _, _) in enumerate(described["logs"]):
            offset = self._stores.logs.append(run_id, path, 0, b"")
            with self._archive.file(f"runs/{number}/logs/{index}").open("rb") as log:
                while piece := log.read(PIECE_BYTES):
                    offset = self._stores.logs.append(run_id, path, offset, piece)
        self._stores.logs.seal(run_id)
        try:
            lines = self._archive.lines(f"runs/{number}/metrics.jsonl")
            self._stores.transfer.insert(self._workspace, described["rows"], lines)
        except AlreadyExists:
            raise Conflict(f"Run {run_id!r} was made here while the archive was read.") from None
        except Exception:
            self._stores.logs.delete(run_id)
            raise
        self._done.runs.append(run_id)

    def _check(self, run_id: RunId, given: Any) -> None:
        """Check that the rows belong to this run only, and that all files and runs they name exist."""
        rows = self._stores.transfer.checked(given)
        run = rows["run"]
        if run["id"] != run_id:
            raise InvalidArgument(f"The archive has the rows of {run['id']!r} as those of run {run_id!r}.")
        check_experiment_name(run["experiment"])
        for name in ("parent_id", "root_id"):
            self._check_relative(run_id, run[name])
        for attempt in [run["ticket"] or f"{run_id}.0", *(part["attempt_id"] for part in rows["parts"])]:
            if run_of(AttemptId(attempt)) != run_id:
                raise InvalidArgument(f"The archive has an attempt {attempt!r} of another run in run {run_id!r}.")
        for journal in rows["journals"]:
            check_journal_name(journal["journal"], run_id)
        files = [FileEntry(row["path"], row["sha256"], row["size"], row["mode"]) for row in rows["files"]]
        self._check_entries(run_id, files)
        snapshot = rows["snapshot"]
        if (snapshot and snapshot["id"]) != run["snapshot_id"]:
            raise InvalidArgument(f"The archive has another snapshot than run {run_id!r} names.")
        if snapshot:
            entries = _entries(snapshot["entries"])
            self._check_entries(run_id, entries)
            if snapshot_id(entries) != snapshot["id"]:
                raise InvalidArgument(f"The snapshot of run {run_id!r} in the archive is not what its id says.")

    def _check_relative(self, run_id: RunId, relative: str | None) -> None:
        if relative is None or relative in self._archive.run_ids:
            return
        there = find_run(self._stores.runs, RunId(relative))
        if there is None or there.workspace != self._workspace:
            raise InvalidArgument(
                f"Run {run_id!r} is a child of {relative!r}, which is neither in the archive nor in workspace "
                f"{self._workspace!r}.",
                hint=f"Export {relative!r}: its children come along.",
            )

    def _refuse_cycles(self) -> None:
        """Raise InvalidArgument for a run that is its own ancestor: a search for the root would never end."""
        parents = {
            run_id: self._archive.described(number)["rows"]["run"]["parent_id"]
            for number, run_id in enumerate(self._archive.run_ids)
        }
        checked: set[str | None] = {None}
        for run_id in parents:
            ancestors: list[str | None] = []
            ancestor: str | None = run_id
            while ancestor not in checked:
                if ancestor in ancestors:
                    raise InvalidArgument(f"The archive has run {run_id!r} below itself.")
                ancestors.append(ancestor)
                ancestor = parents.get(RunId(str(ancestor)))
            checked.update(ancestors)

    def _check_entries(self, run_id: RunId, entries: list[FileEntry]) -> None:
        if checked_entries(entries) != sorted(entries, key=lambda entry: entry.path):
            raise InvalidArgument(f"The archive has files of run {run_id!r} whose paths or sizes cannot be right.")
        for entry in entries:
            try:
                self._stores.blobs.verified_path(entry.sha256, size=entry.size)
            except (NotFound, BlobDamaged):
                raise InvalidArgument(f"The archive lacks the file {entry.path!r} of run {run_id!r}.") from None

    def _new_model(self, given: Any) -> Asset | None:
        """Model to store; None if it is here already and equal. Raises Conflict if it differs."""
        model = self._checked_model(given)
        named = f"{model.name}:{model.version}"
        try:
            there = self._stores.assets.get(self._workspace, AssetKind.MODEL, model.name, model.version)
        except NotFound:
            return model
        if model_json(there) != model_json(model):
            raise Conflict(f"The model {named} is here already and differs from the one in the archive.")
        self._done.known_models.append(named)
        return None

    def _checked_model(self, given: Any) -> Asset:
        if not isinstance(given, dict) or given.keys() != _MODEL.keys():
            raise InvalidArgument("The archive has a model that is none.")
        if not all(isinstance(given[name], kind) for name, kind in _MODEL.items()):
            raise InvalidArgument("The archive has a model that is none.")
        name, body = check_asset_name(AssetKind.MODEL, given["name"]), given["body"]
        if not 1 <= given["version"] < 2**31 or not 0 < len(given["id"]) <= _LONGEST_ID:
            raise InvalidArgument(f"The archive has the model {name!r} without a right version or id.")
        if body.get("run_id") not in self._archive.run_ids:
            raise InvalidArgument(f"The archive has the model {name!r} of a run that it does not have.")
        if not all(isinstance(value, str) for value in given["tags"].values()):
            raise InvalidArgument(f"The archive has the model {name!r} with tags that are no texts.")
        self._check_entries(body["run_id"], _entries(body.get("files")))
        made, changed = (_time(given[key]) for key in ("created_at", "modified_at"))
        return Asset(
            given["id"], self._workspace, AssetKind.MODEL, name, given["version"], made, changed, body, given["tags"]
        )


def _entries(given: Any) -> list[FileEntry]:
    kinds = (str, str, int, int)
    for entry in _a_list(given, "files"):
        if not isinstance(entry, list) or len(entry) != len(kinds):
            raise InvalidArgument("The archive has files that are none.")
        if not all(isinstance(value, kind) for value, kind in zip(entry, kinds, strict=True)):
            raise InvalidArgument("The archive has files that are none.")
    return [FileEntry(*entry) for entry in given]


def _a_list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidArgument(f"{name} of the archive is no list.")
    return value


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"The archive has {text[:40]!r} for a time.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
