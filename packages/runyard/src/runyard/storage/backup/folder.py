"""The folder of backups of a home.

    runyard-backup.json     marks the folder as one of backups
    lock                    held (flock) while a backup is made
    blobs/ab/SHA256         the content of every file, shared by all snapshots
    snapshots/NAME/         one backup: manifest.json, database.sqlite or database.dump, files.jsonl, blobs.txt

A snapshot is written to `snapshots/.NAME` and renamed when all of it is on disk, so a name without the dot is complete.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from runyard.core.disk import disk_errors_explained, sync_folder
from runyard.core.errors import Conflict, InvalidArgument, NotFound, RunyardError
from runyard.storage.blobs.store import FileBlobStore

FORMAT = 1
SQLITE, POSTGRESQL = "sqlite", "postgresql"
_MARK = "runyard-backup.json"
_MANIFEST = "manifest.json"
_LOCK = "lock"
_BEFORE_FIRST_BACKUP = frozenset({_LOCK, f"{_MARK}.new", "lost+found"})
"""Names that a folder without the mark may hold: a first backup was interrupted, or another one is starting."""
_SECRET_FOLDER = 0o700
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class BackupPart:
    """A file of a snapshot."""

    name: str
    size: int
    sha256: str
    count: int = 0
    """Number of entries, where it is a list."""
    bytes: int = 0
    """Bytes of the listed files together."""


@dataclass(frozen=True)
class Manifest:
    format: int
    name: str
    taken_at: str
    runyard: str
    database_kind: str
    schema: str
    has_data: bool
    database: BackupPart
    files: BackupPart
    blobs: BackupPart
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptFile:
    """A file of the home, by its path there; its content is a blob of the backup."""

    path: str
    sha256: str
    size: int
    mode: int
    mtime_ns: int


class BackupFolder:
    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def blobs(self) -> FileBlobStore:
        return FileBlobStore(self.root / "blobs")

    def prepare(self) -> None:
        """Make the folder. Raises InvalidArgument for one that holds other things."""
        with disk_errors_explained(self.root):
            self.root.mkdir(mode=_SECRET_FOLDER, parents=True, exist_ok=True)
            held = {entry.name for entry in os.scandir(self.root)}
            if _MARK not in held and held - _BEFORE_FIRST_BACKUP:
                raise InvalidArgument(
                    f"The folder {str(self.root)!r} is not empty and holds no backups.",
                    hint="Name an empty or new folder.",
                )

    def require(self) -> None:
        """Raises NotFound where there are no backups, InvalidArgument for a format of a later release."""
        if not self._is_marked():
            raise NotFound(f"{str(self.root)!r} is no folder of backups.", hint="`runyard backup FOLDER` makes one.")
        found = json.loads((self.root / _MARK).read_bytes())["format"]
        if found > FORMAT:
            raise InvalidArgument(
                f"The backups in {str(self.root)!r} have format {found}; this release knows up to {FORMAT}.",
                hint="Use the runyard that made them, or a later one.",
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for one backup, and mark it as a folder of backups. Raises Conflict if it is locked."""
        with disk_errors_explained(self.root), (self.root / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"Another backup is being made in {str(self.root)!r}.", hint="Wait until it has ended."
                ) from None
            if not self._is_marked():
                self.root.chmod(_SECRET_FOLDER)
                _write_synced(self.root / _MARK, json.dumps({"format": FORMAT}).encode())
            (self.root / "snapshots").mkdir(mode=_SECRET_FOLDER, exist_ok=True)
            yield

    def names(self) -> list[str]:
        """Names of complete snapshots, oldest first."""
        found = (self.root / "snapshots").glob("*")
        return sorted(n.name for n in found if n.name[0] != "." and (n / _MANIFEST).is_file())

    def begin(self, name: str) -> Path:
        """Create a folder for the parts of a snapshot, and remove those of killed backups. The caller holds the
        lock."""
        folder = self.root / "snapshots"
        for left in folder.glob(".*"):
            shutil.rmtree(left)
        unfinished = folder / f".{name}"
        unfinished.mkdir(mode=_SECRET_FOLDER)
        return unfinished

    def finish(self, unfinished: Path, manifest: Manifest) -> None:
        """Make it the newest snapshot. Afterwards it survives a power failure."""
        _write_synced(unfinished / _MANIFEST, json.dumps(asdict(manifest), indent=2).encode())
        sync_folder(unfinished)
        os.rename(unfinished, unfinished.with_name(manifest.name))
        sync_folder(unfinished.parent)

    def manifest(self, name: str | None) -> Manifest:
        """Manifest of the named snapshot, else of the newest. Raises NotFound that lists the existing ones."""
        names = self.names()
        chosen = name or (names[-1] if names else "")
        if chosen not in names:
            listed = f"There are {', '.join(map(repr, names))}." if names else "It holds no whole backup."
            wanted = f"no backup {name!r}" if name else "no backup"
            raise NotFound(f"There is {wanted} in {str(self.root)!r}.", hint=listed)
        try:
            body = json.loads((self.path(chosen) / _MANIFEST).read_bytes())
            known = {field.name: body[field.name] for field in fields(Manifest)}
            parts = {part: BackupPart(**known[part]) for part in ("database", "files", "blobs")}
        except (ValueError, KeyError, TypeError) as error:
            raise RunyardError(f"The manifest of backup {chosen!r} cannot be read: {error}.") from error
        return Manifest(**{**known, **parts, "notes": tuple(known["notes"])})

    def path(self, name: str) -> Path:
        return self.root / "snapshots" / name

    def checked_part(self, manifest: Manifest, part: BackupPart) -> Path:
        """Path of the part after a check of its hash. Raises RunyardError if it is missing or damaged."""
        file = self.path(manifest.name) / part.name
        found = describe_part(file) if file.is_file() else None
        if found is None or (found.size, found.sha256) != (part.size, part.sha256):
            raise RunyardError(
                f"{part.name} of backup {manifest.name!r} is {'missing' if found is None else 'damaged'}.",
                hint="Restore another one: `runyard restore FOLDER --snapshot NAME`.",
            )
        return file

    def kept_files(self, manifest: Manifest) -> Iterator[KeptFile]:
        with self.checked_part(manifest, manifest.files).open("rb") as lines:
            for line in lines:
                yield KeptFile(*json.loads(line))

    def blob_names(self, manifest: Manifest) -> Iterator[str]:
        with self.checked_part(manifest, manifest.blobs).open("r", encoding="ascii") as lines:
            for line in lines:
                yield line.strip()

    def remove_older(self, keep: int) -> int:
        """Remove all but the newest `keep` snapshots, and blobs that only they used. The caller holds the lock.

        Removes no blobs while one of the kept snapshots is damaged, because its references are unknown.
        """
        names = self.names()
        for name in names[:-keep]:
            hidden = self.path(f".removed-{name}")
            os.rename(self.path(name), hidden)
            shutil.rmtree(hidden)
        if len(names) > keep:
            with suppress(RunyardError):
                self.blobs.delete_unused(self._named(self.names()), 0)
        return max(0, len(names) - keep)

    def _named(self, names: Iterable[str]) -> set[str]:
        """Every blob that these snapshots use. Raises RunyardError if one is damaged."""
        used: set[str] = set()
        for name in names:
            manifest = self.manifest(name)
            used.update(self.blob_names(manifest))
            used.update(file.sha256 for file in self.kept_files(manifest))
        return used

    def _is_marked(self) -> bool:
        return (self.root / _MARK).is_file()


def describe_part(file: Path, *, count: int = 0, bytes: int = 0) -> BackupPart:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return BackupPart(file.name, size, digest.hexdigest(), count, bytes)


def write_list(file: Path, lines: Iterable[str]) -> None:
    with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as opened:
        for line in lines:
            opened.write(line + "\n")
        opened.flush()
        os.fsync(opened.fileno())


def as_line(file: KeptFile) -> str:
    values: list[Any] = [getattr(file, field.name) for field in fields(KeptFile)]
    return json.dumps(values)


def _write_synced(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    with open(os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    os.rename(beside, path)
    sync_folder(path.parent)
