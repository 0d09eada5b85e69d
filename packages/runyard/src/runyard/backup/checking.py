import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from runyard.backup.taking import DATABASE_FILE, Report
from runyard.blobs.copying import hash_of
from runyard.environments.cache import NOT_ENVIRONMENTS
from runyard.environments.durable import is_locked
from runyard.model.runs import AttemptId, run_of
from runyard.settings import Settings
from runyard.stores.blob_references import BlobReference, blob_references, named_blobs
from runyard.stores.database import Database, open_database
from runyard.stores.database_copy import sqlite_faults
from runyard.stores.salvage import is_damage
from runyard.stores.schema import metadata, runs

_REPORTED_EVERY = 256
_NAMED_FAULTS = 20


@dataclass(frozen=True)
class Finding:
    """One problem of a home. `is_damage`: stored data is lost or cannot be trusted."""

    part: str
    what: str
    is_damage: bool = True
    repaired: str = ""
    """What a repair did about it; "" if nothing."""


@dataclass(frozen=True)
class Blobs:
    """Result of checking the blobs of a home."""

    altered: frozenset[str]
    missing: tuple[BlobReference, ...]
    """Files of runs, snapshots and assets whose blob is missing, altered or has another size."""
    unnamed: int
    unnamed_bytes: int


@dataclass(frozen=True)
class Ownerless:
    """Paths below the home without a row in the database and without a process that uses them."""

    paths: tuple[str, ...]
    unbuilt_environments: tuple[str, ...]


def check_database(settings: Settings, report: Report) -> list[Finding]:
    """Check with SQLite's integrity check, if it is SQLite, and by reading every row."""
    report("database", 0, 0)
    faults = [] if settings.database_url else sqlite_faults(settings.home / DATABASE_FILE)
    found = [Finding("database", fault) for fault in faults[:_NAMED_FAULTS]]
    database = open_database(settings.store_url)
    try:
        for table in metadata.sorted_tables:
            report(f"table {table.name}", 0, 0)
            with database.engine.connect() as connection:
                try:
                    for _ in connection.execution_options(yield_per=1000).execute(select(table)):
                        pass
                except Exception as error:
                    if not is_damage(error):
                        raise
                    reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
                    found.append(Finding("database", f"The table {table.name} cannot be read whole: {reason}."))
    finally:
        database.close()
    return found


def check_blobs(home: Path, connection: Connection, report: Report) -> Blobs:
    """Hash every blob and compare with the references in the database."""
    named = named_blobs(connection)
    sizes: dict[str, int] = {}
    altered: set[str] = set()
    unnamed = unnamed_bytes = 0
    for done, file in enumerate(_blob_files(home)):
        if done % _REPORTED_EVERY == 0:
            report("blobs", done, len(named))
        try:
            with open(file.path, "rb") as blob:
                sha256, size = hash_of(blob.fileno())
        except FileNotFoundError:
            continue  # deleted meanwhile by garbage collection
        except OSError:
            sha256, size = "", 0  # unreadable on disk
        if sha256 != file.name:
            altered.add(file.name)
        elif file.name in named:
            sizes[file.name] = size
        else:
            unnamed, unnamed_bytes = unnamed + 1, unnamed_bytes + size
    missing = [
        reference
        for reference in blob_references(connection)
        if reference.sha256 not in sizes or reference.size not in (None, sizes[reference.sha256])
    ]
    return Blobs(frozenset(altered), tuple(missing), unnamed, unnamed_bytes)


def check_folders(home: Path, database: Database) -> Ownerless:
    """Find orphaned folders, except those of web services: the service removes these when it starts."""
    of_runs = [f"{part}/{name}" for part in ("logs", "interactive") for name in _names(home / part)]
    attempts = _names(home / "attempts")
    # Read after the folders: a run has a row before it has a folder.
    with database.engine.connect() as connection:
        known = set(connection.execute(select(runs.c.id)).scalars())
    paths = [path for path in of_runs if path.partition("/")[2] not in known]
    for name in attempts:
        if run_of(AttemptId(name)) not in known and not is_locked(home / "attempts" / name / "lock"):
            paths.append(f"attempts/{name}")
    unbuilt = [
        f"environments/{name}"
        for name in _names(home / "environments")
        if name not in NOT_ENVIRONMENTS and not (home / "environments" / name / ".ready").exists()
        if not is_locked(home / "environments" / "locks" / f"{name}.builder")
    ]
    return Ownerless(tuple(paths), tuple(unbuilt))


def left_mounts(home: Path) -> list[str]:
    """Mount points of attempts that no longer exist."""
    return [f"mounts/{name}" for name in _names(home / "mounts") if not (home / "attempts" / name).exists()]


def blob_findings(blobs: Blobs, repaired: Callable[[str], str] = lambda sha256: "") -> list[Finding]:
    named = {reference.sha256 for reference in blobs.missing}
    found = [
        Finding(
            "files",
            f"{reference.path!r} of {reference.owner} is "
            f"{'altered' if reference.sha256 in blobs.altered else 'missing'} (blob {reference.sha256}).",
            repaired=repaired(reference.sha256),
        )
        for reference in blobs.missing
    ]
    found += [
        Finding("files", f"The blob {sha256}, which nothing names, is altered.", False, repaired(sha256))
        for sha256 in sorted(blobs.altered - named)
    ]
    if blobs.unnamed:
        text = f"{blobs.unnamed} blobs ({blobs.unnamed_bytes} bytes) are named by nothing; `runyard gc` frees old ones."
        found.append(Finding("files", text, is_damage=False))
    return found


def _blob_files(home: Path) -> Iterator["os.DirEntry[str]"]:
    for shard in _names(home / "blobs"):
        if len(shard) == 2:
            yield from sorted(os.scandir(home / "blobs" / shard), key=lambda entry: entry.name)


def _names(folder: Path) -> list[str]:
    """Names of the folders in it, sorted."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
