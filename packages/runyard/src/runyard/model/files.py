from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class FileEntry:
    """One file of a snapshot, a run or a model: where it goes and which blob it is."""

    path: str
    sha256: str
    size: int
    mode: int = 0o644


@dataclass(frozen=True)
class Snapshot:
    id: str
    entries: tuple[FileEntry, ...]
    created_at: datetime
