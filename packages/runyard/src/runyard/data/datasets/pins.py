"""Pin of a dataset version: a manifest of its files, stored as a blob and compared with the files later."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from runyard.core.ports.blobs import BlobStore
from runyard.core.ports.clock import Clock
from runyard.data.datasets.steps import FoundFile

NAMED = 3
_PIECE_LINES = 10_000


class Pins:
    def __init__(self, blobs: BlobStore, clock: Clock) -> None:
        self._blobs, self._clock = blobs, clock

    def make(self, files: Sequence[FoundFile]) -> dict[str, Any]:
        """Store the manifest of the files and return the pin."""
        pieces = list(_lines(files))
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        self._blobs.put(digest.hexdigest(), pieces)
        sizes = [file.source.size for file in files]
        return {
            "manifest": digest.hexdigest(),
            "files": len(files),
            "bytes": None if None in sizes else sum(size for size in sizes if size is not None),
            "at": self._clock.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        }

    def changes(self, pin: Mapping[str, Any] | None, files: Sequence[FoundFile]) -> list[str]:
        """Sentences on what was added, changed or removed since the pin was made; empty without a pin."""
        if not pin:
            return []
        with self._blobs.open(pin["manifest"]) as opened:
            before = {path: (size, etag) for path, size, etag in map(orjson.loads, opened)}
        now = {file.source.path: (file.source.size, file.source.etag) for file in files}
        since = f"since this version was made at {pin['at']}"
        groups = {
            "added": [path for path in now if path not in before],
            "changed": [path for path, seen in now.items() if path in before and _differ(before[path], seen)],
            "removed": [path for path in before if path not in now],
        }
        return [_sentence(paths, what, since) for what, paths in groups.items() if paths]


def _lines(files: Sequence[FoundFile]) -> Iterator[bytes]:
    for start in range(0, len(files), _PIECE_LINES):
        rows = (file.source for file in files[start : start + _PIECE_LINES])
        yield b"".join(orjson.dumps([row.path, row.size, row.etag]) + b"\n" for row in rows)


def _differ(before: tuple[int | None, str], now: tuple[int | None, str]) -> bool:
    return any(
        old != new for old, new in zip(before, now, strict=True) if old not in (None, "") and new not in (None, "")
    )


def _sentence(paths: Sequence[str], what: str, since: str) -> str:
    number = "1 file was" if len(paths) == 1 else f"{len(paths):,} files were"
    named = ", ".join(repr(path) for path in paths[:NAMED]) + (", ..." if len(paths) > NAMED else "")
    return f"{number} {what} {since}: {named}."
