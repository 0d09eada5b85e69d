import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, type_coerce
from sqlalchemy.types import Text

from runyard.stores.schema import assets, run_files, runs, snapshots

_SHA256 = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_ENTRY_FIELDS = 4


@dataclass(frozen=True)
class BlobReference:
    """Reference of a run, a snapshot or an asset to a blob. `size` is None if the row does not have it."""

    sha256: str
    size: int | None
    owner: str
    path: str


def named_blobs(connection: Connection) -> set[str]:
    """Every blob that may be in use. Also contains other hashes in asset bodies."""
    used = set(connection.execute(select(run_files.c.sha256).distinct()).scalars())
    for column in (snapshots.c.entries, assets.c.body):
        for text in connection.execute(select(type_coerce(column, Text))).scalars():
            used.update(_SHA256.findall(text))
    return used


def blob_references(connection: Connection) -> Iterator[BlobReference]:
    """Every file that needs its blob. Unlike `named_blobs`, only real blobs."""
    of_runs = select(runs.c.id, *run_files.c["path", "sha256", "size"]).join_from(runs, run_files)
    for run_id, path, sha256, size in connection.execute(of_runs):
        yield BlobReference(sha256, size, f"run {run_id}", path)
    for snapshot_id, entries in connection.execute(select(snapshots.c.id, snapshots.c.entries)):
        for path, sha256, size, *_ in entries:
            yield BlobReference(sha256, size, f"snapshot {snapshot_id}", path)
    for row in connection.execute(select(*assets.c["workspace", "kind", "name", "version", "body"])):
        owner = f"{row.kind[:-1]} {row.name}:{row.version} of workspace {row.workspace}"
        body = row.body
        for path, sha256, size in _entries_in(body):
            yield BlobReference(sha256, size, owner, path)
        pin = body.get("pin")
        if isinstance(pin, dict) and _SHA256.fullmatch(str(pin.get("manifest"))):
            yield BlobReference(pin["manifest"], None, owner, "the list of its files")


def _entries_in(value: Any) -> Iterator[tuple[str, str, int]]:
    """Entries of the form [path, sha256, size, mode], at any depth."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _entries_in(inner)
    elif isinstance(value, list):
        if _is_entry(value):
            yield value[0], value[1], value[2]
        else:
            for inner in value:
                yield from _entries_in(inner)


def _is_entry(value: list[Any]) -> bool:
    if len(value) != _ENTRY_FIELDS or not isinstance(value[0], str) or not isinstance(value[1], str):
        return False
    return isinstance(value[2], int) and _SHA256.fullmatch(value[1]) is not None
