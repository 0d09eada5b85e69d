import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runyard.errors import DataFailed, RunyardError
from runyard.model.plan import DataItem
from runyard.node.attempt import AttemptFolder
from runyard.node.data.mount_points import MountPoints

_KINDS = {"dataset": "Data input", "reference": "Data reference", "output": "Output"}


@dataclass(frozen=True)
class Place:
    """Where data is staged to, and where progress is reported."""

    folder: AttemptFolder
    mounts: MountPoints
    life: int
    """Read end of the lifeline: the mount process ends when all write ends are closed."""
    say: Callable[[str], None]
    """Writes a line to the node's log."""
    message: Callable[[str], None]
    """Sets the message of the run."""

    def of(self, item: DataItem) -> Path:
        """Folder of the item's files: in the working folder if path_on_compute is relative."""
        if item.path_on_compute and not item.path_on_compute.startswith("/"):
            return self.folder.work / item.path_on_compute
        return self.folder.data / item.name


def named(item: DataItem) -> str:
    return f"{_KINDS[item.kind]} {item.name!r}"


@contextmanager
def naming(item: DataItem) -> Iterator[None]:
    """Turn errors in the block into errors that name the item."""
    try:
        yield
    except RunyardError as error:
        raise type(error)(f"{named(item)}: {error.problem}", hint=error.hint, **error.facts) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "Free space with `runyard gc` or set RUNYARD_HOME to a folder on another disk." if full else ""
        raise DataFailed(
            f"{named(item)} could not be brought into the run: {error}.", hint=hint or "Check the path and its rights."
        ) from error
