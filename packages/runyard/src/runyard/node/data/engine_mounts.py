import os
from pathlib import Path

from runyard.mounting import kernel
from runyard.node.attempt import AttemptFolder
from runyard.node.data.brought import Bind
from runyard.node.data.mount_points import MountPoints

_OF_THE_KERNEL = (Path("/proc"), Path("/sys"), Path("/dev"))


class EngineMounts(MountPoints):
    """Mount points of a run in a container: binds are noted for the engine, which would not see mounts of this process.

    Paths are the same as they would be without a container.
    """

    def __init__(self, folder: AttemptFolder, user: str = "") -> None:
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
        self.binds.append(Bind(str(source), str(target), is_read_only=True))
        return target

    def show(self, path: Path) -> None:
        self.binds.append(Bind(str(path), str(path)))

    def bind_elsewhere(self, source: Path, wanted: Path) -> str:
        wanted, home = Path(os.path.normpath(wanted)), Path(os.path.realpath(self._home))
        if wanted.is_relative_to(home) or home.is_relative_to(wanted):
            return "Runyard's own files lie there"
        if any(wanted.is_relative_to(place) for place in _OF_THE_KERNEL):
            return "the kernel's own files lie there"
        if any(bind.target == str(wanted) for bind in self.binds):
            return "other data of the run is there already"
        self.binds.append(self._seen_from_here(source, wanted))
        return ""

    def _seen_from_here(self, source: Path, target: Path) -> Bind:
        """Bind for `source`, a path in the container, which is another path on this machine."""
        for bind in self.binds:
            if source.is_relative_to(bind.target):
                here = Path(bind.source) / source.relative_to(bind.target)
                return Bind(str(here), str(target), bind.is_read_only)
        return Bind(str(source), str(target))
