import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runyard.core.errors import Json
from runyard.node.processes.procfs import ProcessId

StatSignature = list[int]
StatSignatures = dict[str, StatSignature]
"""Signatures by path, relative to some root."""


@dataclass
class PendingUpload:
    """A folder or file of the task that is uploaded to a datastore when the script has ended."""

    path: str
    prefix: str
    """Path on the datastore."""
    overwrite: bool
    seen: StatSignatures | None = None
    """Signatures of downloaded files: only changed and new files are uploaded. None: all files are the script's own."""


@dataclass(frozen=True)
class BindMount:
    """A folder or file of the machine to mount into the run's container."""

    source: str
    target: str
    is_read_only: bool = False


@dataclass
class StagedData:
    """The data of a task as it was staged, by names of items.

    It is written to a file of the task: it must hold no credentials.
    """

    paths: dict[str, str] = field(default_factory=dict)
    """Paths for arguments and variables."""
    notices: list[str] = field(default_factory=list)
    """Lines for the head of the run's log: files that changed since a dataset was made. The service warns of it too."""
    warnings: list[str] = field(default_factory=list)
    uploads: dict[str, PendingUpload] = field(default_factory=dict)
    served: list[str] = field(default_factory=list)
    """Items that the mount process serves."""
    served_writable: list[str] = field(default_factory=list)
    """Served items that the script may write to."""
    mount_process: ProcessId | None = None
    mount_report: str = ""
    """Name of the report file that the mount process writes; each process has its own."""
    mount_points: list[str] = field(default_factory=list)
    """Mount points of the mount process."""
    binds: list[BindMount] = field(default_factory=list)
    """Mounts that a container needs for all this."""

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Json) -> "StagedData":
        process = body["mount_process"]
        uploads = {name: PendingUpload(**upload) for name, upload in body["uploads"].items()}
        known = None if process is None else ProcessId(**process)
        binds = [BindMount(**bind) for bind in body["binds"]]
        return cls(**{**body, "uploads": uploads, "mount_process": known, "binds": binds})


def stat_signature(file: Path) -> StatSignature:
    """Size and times of a file, to tell whether it changed; ctime, because a script may set mtime back."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def stat_signatures_below(root: Path) -> StatSignatures:
    files = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {file.relative_to(root).as_posix(): stat_signature(file) for file in files}
