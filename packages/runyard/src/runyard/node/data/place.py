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
    """Where data is brought to, and who hears of it."""

    folder: AttemptFolder
    mounts: MountPoints
    life: int
    """Descriptor whose other end the supervisor holds: what is served ends with it."""
    say: Callable[[str], None]
    """A line of the node's log."""
    message: Callable[[str], None]
    """What is waited for, in words for the run's page."""

    def of(self, item: DataItem) -> Path:
        """Where the item's own files lie: in the working folder where path_on_compute says so."""
        if item.path_on_compute and not item.path_on_compute.startswith("/"):
            return self.folder.work / item.path_on_compute
        return self.folder.data / item.name


def named(item: DataItem) -> str:
    return f"{_KINDS[item.kind]} {item.name!r}"


@contextmanager
def naming(item: DataItem) -> Iterator[None]:
    """Whatever goes wrong in the block becomes an error that names the item."""
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
