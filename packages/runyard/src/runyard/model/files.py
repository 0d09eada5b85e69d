from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


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


@dataclass(frozen=True)
class Within:
    """Where files must lie that are taken in for somebody who may not name every file of this machine."""

    folders: tuple[Path, ...]
    """Real paths, without links in them."""
    refuses_hard_links: bool = False
    """A hard link may be a file of somebody else under a name in the folder."""
