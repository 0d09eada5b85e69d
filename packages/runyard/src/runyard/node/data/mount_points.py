import os
from pathlib import Path

from runyard.errors import InvalidArgument
from runyard.mounting import kernel
from runyard.node.attempt import AttemptFolder
from runyard.node.data.brought import Bind
from runyard.run_folders import mounts_root, scripts_root


class MountPoints:
    """Mount points of a task's data: `mounts/TASK/NAME` of the home.

    Never below the task's own folder, which is deleted recursively: that would delete the data of a mount in it.
    """

    def __init__(self, folder: AttemptFolder, *, are_private: bool) -> None:
        """`are_private`: this process has its own mount namespace, which ends with it."""
        self.root, self.are_private = folder.mounts, are_private
        self.binds: list[Bind] = []
        """Mounts that a container needs; none without a container."""
        self.are_by_engine = False
        self.links = folder.data
        """Folder for trees of links, which are bound elsewhere."""
        self._home = folder.home

    def of(self, name: str) -> Path:
        return self.root / name

    def bind(self, source: Path, name: str) -> Path:
        """Bind-mount a folder read-only, also for root. Only where mounts are private."""
        target = self.of(name)
        kernel.bind(source, target, read_only=True)
        return target

    def show(self, path: Path) -> None:
        """Let the run read and write a folder of this machine. Without a container it can already."""

    def why_not_served(self) -> str:
        """Why the run would not see mounts that a process of this machine serves, in a sentence; "" where it does."""
        return ""

    def bind_elsewhere(self, source: Path, wanted: Path) -> str:
        """Bind-mount a folder of the task also at a path that the user chose. Returns why that failed, else "".

        It hides nothing of the machine, and no other process sees it. A folder that had to be created stays, empty: it
        may be the mount point of another run.
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
    """Unmount what tasks that have ended left mounted. Returns mount points that could not be unmounted."""
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
