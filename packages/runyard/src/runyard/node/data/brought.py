from dataclasses import asdict, dataclass, field

from runyard.errors import Json
from runyard.node.data.marks import Marks
from runyard.node.processes import ProcessId


@dataclass
class Upload:
    """A folder or file of the task that is uploaded to a datastore when the script has ended."""

    path: str
    prefix: str
    """Path on the datastore."""
    overwrite: bool
    seen: Marks | None = None
    """Signatures of downloaded files: only changed and new files are uploaded. None: all files are the script's own."""


@dataclass(frozen=True)
class Bind:
    """A folder or file of the machine to mount into the run's container."""

    source: str
    target: str
    is_read_only: bool = False


@dataclass
class Brought:
    """The data of a task as it was staged, by names of items.

    It is written to a file of the task: it must hold no credentials.
    """

    paths: dict[str, str] = field(default_factory=dict)
    """Paths for arguments and variables."""
    notices: list[str] = field(default_factory=list)
    """Lines for the head of the run's log: files that changed since a dataset was made. The service warns of it too."""
    warnings: list[str] = field(default_factory=list)
    uploads: dict[str, Upload] = field(default_factory=dict)
    served: list[str] = field(default_factory=list)
    """Items that the mount process serves."""
    served_writable: list[str] = field(default_factory=list)
    """Served items that the script may write to."""
    mount_process: ProcessId | None = None
    mount_report: str = ""
    """Name of the report file that the mount process writes; each process has its own."""
    mount_points: list[str] = field(default_factory=list)
    """Mount points of the mount process."""
    binds: list[Bind] = field(default_factory=list)
    """Mounts that a container needs for all this."""

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Json) -> "Brought":
        process = body["mount_process"]
        uploads = {name: Upload(**upload) for name, upload in body["uploads"].items()}
        known = None if process is None else ProcessId(**process)
        binds = [Bind(**bind) for bind in body["binds"]]
        return cls(**{**body, "uploads": uploads, "mount_process": known, "binds": binds})
