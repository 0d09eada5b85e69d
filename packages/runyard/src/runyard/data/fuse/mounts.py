from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.core.errors import DataFailed
from runyard.core.records.data import SourceFile


@dataclass(frozen=True)
class ReadOnlyMount:
    """Mount of the files of a dataset. The folder `mount_point` is created if missing."""

    mount_point: Path
    files: Sequence[SourceFile]
    name: str
    """Name in progress lines and errors."""


@dataclass(frozen=True)
class WritableMount:
    """Mount of a folder of a store, for reading and writing."""

    mount_point: Path
    store: str
    prefix: str
    """Path of the folder, "" for all of the store."""
    name: str


Mount = ReadOnlyMount | WritableMount


class MountUnavailable(DataFailed):
    """FUSE mounts do not work on this machine or for this user. The data can be downloaded instead."""

    code, status = "mount_unavailable", 422
