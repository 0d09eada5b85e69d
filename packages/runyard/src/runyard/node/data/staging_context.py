from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runyard.core.disk import is_disk_full
from runyard.core.errors import DataFailed, RunyardError
from runyard.core.records.launch_plan import DataItem
from runyard.node.data.mount_points import MountPoints
from runyard.node.task_folder import TaskFolder

_KINDS = {"dataset": "Data input", "reference": "Data reference", "output": "Output"}


@dataclass(frozen=True)
class StagingContext:
    """Where data is staged to, and where progress is reported."""

    folder: TaskFolder
    mounts: MountPoints
    life: int
    """Read end of the lifeline: the mount process ends when all write ends are closed."""
    log_line: Callable[[str], None]
    """Writes a line to the node's log."""
    message: Callable[[str], None]
    """Sets the message of the run."""

    def of(self, item: DataItem) -> Path:
        """Folder of the item's files: in the working folder if path_on_compute is relative."""
        if item.path_on_compute and not item.path_on_compute.startswith("/"):
            return self.folder.work / item.path_on_compute
        return self.folder.data / item.name


def item_label(item: DataItem) -> str:
    return f"{_KINDS[item.kind]} {item.name!r}"


@contextmanager
def item_errors(item: DataItem) -> Iterator[None]:
    """Turn errors in the block into errors that name the item."""
    try:
        yield
    except RunyardError as error:
        raise type(error)(f"{item_label(item)}: {error.problem}", hint=error.hint, **error.facts) from error
    except OSError as error:
        full = is_disk_full(error)
        hint = "Free space with `runyard gc` or set RUNYARD_HOME to a folder on another disk." if full else ""
        raise DataFailed(
            f"{item_label(item)} could not be staged for the run: {error}.",
            hint=hint or "Check the path and its rights.",
        ) from error
