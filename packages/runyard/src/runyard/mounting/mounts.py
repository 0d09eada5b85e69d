from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.model.data import SourceFile


@dataclass(frozen=True)
class ReadOnlyMount:
    """The files of a dataset, to be seen at `mount_point`, a folder that is made when it is not there."""

    mount_point: Path
    files: Sequence[SourceFile]
    name: str
    """What people call it: in progress lines and errors."""


@dataclass(frozen=True)
class WritableMount:
    """A folder of a store, to be read and written at `mount_point`."""

    mount_point: Path
    store: str
    prefix: str
    """Path of the folder, "" for all of the store."""
    name: str


Mount = ReadOnlyMount | WritableMount
