import os
from pathlib import Path

from runyard.errors import InvalidArgument
from runyard.mounting import kernel
from runyard.node.attempt import AttemptFolder
from runyard.node.data.brought import Bind
from runyard.run_folders import mounts_root, scripts_root


class MountPoints:
    """Where an attempt's data is mounted: `mounts/ATTEMPT/NAME` of the home.

    Never below the attempt's own folder, which is removed file by file: a mount in there would cost its owner the data.
    """

    def __init__(self, folder: AttemptFolder, *, are_private: bool) -> None:
        """`are_private`: this process has mounts of its own, which no other process sees and which end with it."""
        self.root, self.are_private = folder.mounts, are_private
        self.binds: list[Bind] = []
        """What a container would need to see what has been bound: nothing, where it is bound here."""
        self.are_by_engine = False
        self.links = folder.data
        """Where trees of links are laid that are bound elsewhere."""
        self._home = folder.home

    def of(self, name: str) -> Path:
        return self.root / name

    def bind(self, source: Path, name: str) -> Path:
        """Show a folder there, read-only even to root. Only where mounts are private."""
        target = self.of(name)
        kernel.bind(source, target, read_only=True)
        return target

    def show(self, path: Path) -> None:
        """Have the run see a folder of this machine where it lies, and write to it: here it does already."""

    def why_not_served(self) -> str:
        """One sentence on why the run would not see what a process of this machine serves; "" where it does."""
        return ""

    def bind_elsewhere(self, source: Path, wanted: Path) -> str:
        """Show a folder of the attempt at a path of the user's choice as well; returns why that cannot be, else "".

        Nothing of the machine is hidden by it, and no other process sees it. A folder that had to be made stays,
        empty: it may be the mount point of another run.
        """
        if not self.are_private:
            return "this machine does not let runs have mounts of their own"
        real = Path(os.path.realpath(wanted))
        home = Path(os.path.realpath(self._home))
        own = (home, *(Path(os.path.realpath(root(self._home))) for root in (scripts_root, mounts_root)))
        if any(real.is_relative_to(one) or one.is_relative_to(real) for one in own):
            return "Runyard's own files lie there"
        try:
            real.mkdir(parents=True, exist_ok=True)
            if os.listdir(real):
                return "that folder is not empty"
            kernel.bind(source, real, read_only=False)
        except OSError as error:
            return error.strerror or str(error)
        return ""


def sweep_left(home: Path) -> list[Path]:
    """What attempts that are no more have left mounted is taken away; those that are still here look after their own.
    Returns what would not go."""
    try:
        names = os.listdir(root := mounts_root(home))
    except OSError:
        return []
    return [left for name in names if not _is_known(home, name) for left in kernel.sweep(root / name)]


def _is_known(home: Path, name: str) -> bool:
    try:
        return AttemptFolder(home, name).root.exists()
    except InvalidArgument:
        return False
