from dataclasses import asdict, dataclass, field

from runyard.errors import Json
from runyard.node.data.marks import Marks
from runyard.node.processes import ProcessId


@dataclass
class Upload:
    """A folder or file of the attempt whose content goes to a datastore when the script has ended."""

    path: str
    prefix: str
    """Where on the datastore."""
    overwrite: bool
    seen: Marks | None = None
    """Of files that were brought: only what is other, or new, goes back. None when all is the script's own."""


@dataclass(frozen=True)
class Bind:
    """A folder or file of the machine that the run's container is to have."""

    source: str
    target: str
    is_read_only: bool = False


@dataclass
class Brought:
    """What an attempt has been given of its data, by the names of its items.

    It lies in a file of the attempt: no credential is in it.
    """

    paths: dict[str, str] = field(default_factory=dict)
    """What arguments and variables get."""
    notices: list[str] = field(default_factory=list)
    """For the head of the run's log: what is other than when a dataset was made. The service warns of it, too."""
    warnings: list[str] = field(default_factory=list)
    uploads: dict[str, Upload] = field(default_factory=dict)
    served: list[str] = field(default_factory=list)
    """Those that the mount process serves."""
    served_writable: list[str] = field(default_factory=list)
    """Those of them that the script may write to."""
    mount_process: ProcessId | None = None
    mount_report: str = ""
    """Name of the file that it leaves in the attempt's folder; each process has its own."""
    mount_points: list[str] = field(default_factory=list)
    """Where it serves them."""
    binds: list[Bind] = field(default_factory=list)
    """What a container needs to see all this."""

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Json) -> "Brought":
        process = body["mount_process"]
        uploads = {name: Upload(**upload) for name, upload in body["uploads"].items()}
        known = None if process is None else ProcessId(**process)
        binds = [Bind(**bind) for bind in body["binds"]]
        return cls(**{**body, "uploads": uploads, "mount_process": known, "binds": binds})
