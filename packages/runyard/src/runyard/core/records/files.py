from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True)
class FileEntry:
    """One file of a snapshot, a run or a model: its path and its blob."""

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
class AllowedFolders:
    """Folders that files are taken from for a caller who may not read every file of this machine."""

    folders: tuple[Path, ...]
    """Real paths, with links resolved."""
    refuses_hard_links: bool = False
    """Refuse hard links: one may be another user's file under a name in the folder."""
