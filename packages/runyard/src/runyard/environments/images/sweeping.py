import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.engine import Engine
from runyard.containers.failures import ImageInUse
from runyard.environments.durable import locked_if_free
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.images.brought import BroughtNames
from runyard.environments.images.naming import HOME, Naming, all_notes
from runyard.environments.images.record import ImageFolder


def builders_lock(root: Path) -> Path:
    """Lock held shared by builds of this home: no image is removed while one runs."""
    return root / "locks" / "images.building"


@dataclass(frozen=True)
class Sweeping:
    """Removes leftovers of killed builds, and images that no environment needs."""

    engine: Engine
    naming: Naming

    def remove_left(self, own_key: str = "") -> None:
        """Remove build containers and private names of builds that have ended; `own_key` is the key of this build."""
        BroughtNames(self.engine, self.naming).remove_left(own_key)
        for container in self.engine.containers.with_labels({}):
            key = self.naming.key_of_build_container(container.name)
            if key and (key == own_key or self._is_left(key)):
                self.engine.containers.remove(container.id)

    def remove_images(self) -> list[str]:
        """Remove images of this home that no finished environment needs; return their names.

        Removes none while a build runs, and no image that a container uses.
        """
        with locked_if_free(builders_lock(self.naming.root)) as free:
            if not free:
                return []
            self.remove_left()
            needed, used = self._needed(), {one.image for one in self.engine.containers.with_labels({})}
            removed = []
            for entry in self.engine.images.with_labels({}):
                if entry.id in used:
                    continue
                left = [name for name in entry.names if self.naming.is_ours(name)]
                if not entry.names and entry.labels.get(HOME) == self.naming.home:
                    left = [entry.id]
                removed += [name for name in left if _plain(name) not in needed and self._removed(name)]
            BroughtNames(self.engine, self.naming).remove_all_but(needed)
            self._forget()
            return removed

    def _is_left(self, key: str) -> bool:
        with locked_if_free(EnvironmentFolder(self.naming.root, key).builder_lock) as free:
            return free

    def _needed(self) -> set[str]:
        folders = (ImageFolder(self.naming.root, entry.parent.name) for entry in self.naming.root.glob("*/.ready"))
        found = [details for folder in folders if (details := folder.details())]
        return {name for details in found for name in (*details.names, *details.brought)}

    def _removed(self, name: str) -> bool:
        with suppress(ImageInUse):
            return self.engine.images.remove(name)
        return False

    def _forget(self) -> None:
        notes = all_notes(self.naming.root)
        for folder in notes.iterdir() if notes.is_dir() else ():
            if self.engine.images.find(f"sha256:{folder.name}") is None:
                shutil.rmtree(folder, ignore_errors=True)


def _plain(name: str) -> str:
    """podman prefixes names without a registry with localhost/."""
    return name.removeprefix("localhost/")
