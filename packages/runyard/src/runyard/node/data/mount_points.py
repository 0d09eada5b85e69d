import os
from pathlib import Path

from runyard.core.errors import InvalidArgument
from runyard.core.run_folders import mounts_root, scripts_root
from runyard.data.fuse import kernel
from runyard.node.data.staged_data import BindMount
from runyard.node.task_folder import TaskFolder


class MountPoints:
    """Mount points of a task's data: `mounts/TASK/NAME` of the home.

    Never below the task's own folder, which is deleted recursively: that would delete the data of a mount in it.
    """

    def __init__(self, folder: TaskFolder, *, are_private: bool) -> None:
        """`are_private`: this process has its own mount namespace, which ends with it."""
        self.root, self.are_private = folder.mounts, are_private
        self.binds: list[BindMount] = []
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

    def bind_at(self, source: Path, wanted: Path) -> str:
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


def unmount_leftovers(home: Path) -> list[Path]:
    """Unmount what tasks that have ended left mounted. Returns mount points that could not be unmounted."""
    try:
        names = os.listdir(root := mounts_root(home))
    except OSError:
        return []
    return [left for name in names if not _is_known(home, name) for left in kernel.sweep(root / name)]


def _is_known(home: Path, name: str) -> bool:
    try:
        return TaskFolder(home, name).root.exists()
    except InvalidArgument:
        return False


_OF_THE_KERNEL = (Path("/proc"), Path("/sys"), Path("/dev"))


class EngineMountPoints(MountPoints):
    """Mount points of a run in a container: binds are noted for the engine, which would not see mounts of this process.

    Paths are the same as they would be without a container.
    """

    def __init__(self, folder: TaskFolder, user: str = "") -> None:
        """`user`: another user that the container runs as; "" for this one."""
        super().__init__(folder, are_private=True)
        self._user = user
        self.are_by_engine = True
        # Not mounted into any container: a script could replace the links that the next container gets.
        self.links = folder.scripts / "links"

    def why_not_served(self) -> str:
        if not kernel.may_mount():
            return "A container engine does not see what an ordinary user has mounted."
        if self._user:
            return f"What this machine mounts is not shown to the container's user {self._user}."
        return ""

    def bind(self, source: Path, name: str) -> Path:
        target = self.of(name)
        self.binds.append(BindMount(str(source), str(target), is_read_only=True))
        return target

    def show(self, path: Path) -> None:
        self.binds.append(BindMount(str(path), str(path)))

    def bind_at(self, source: Path, wanted: Path) -> str:
        wanted, home = Path(os.path.normpath(wanted)), Path(os.path.realpath(self._home))
        if wanted.is_relative_to(home) or home.is_relative_to(wanted):
            return "Runyard's own files lie there"
        if any(wanted.is_relative_to(place) for place in _OF_THE_KERNEL):
            return "the kernel's own files lie there"
        if any(bind.target == str(wanted) for bind in self.binds):
            return "other data of the run is there already"
        self.binds.append(self._seen_from_here(source, wanted))
        return ""

    def _seen_from_here(self, source: Path, target: Path) -> BindMount:
        """Bind for `source`, a path in the container, which is another path on this machine."""
        for bind in self.binds:
            if source.is_relative_to(bind.target):
                here = Path(bind.source) / source.relative_to(bind.target)
                return BindMount(str(here), str(target), bind.is_read_only)
        return BindMount(str(source), str(target))
