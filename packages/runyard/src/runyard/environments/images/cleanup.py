import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.core.durable_files import replace_file, try_exclusive_lock
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.failures import ImageInUse
from runyard.environments.containers.registries import split_tag
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.images.built_images import ImageFolder
from runyard.environments.images.names import HOME, ImageNames, notes_root


def builders_lock(root: Path) -> Path:
    """Lock held shared by builds of this home: no image is removed while one runs."""
    return root / "locks" / "images.building"


@dataclass(frozen=True)
class ImageCleanup:
    """Removes leftovers of killed builds, and images that no environment needs."""

    engine: ContainerEngine
    naming: ImageNames

    def remove_left(self, own_key: str = "") -> None:
        """Remove build containers and private names of builds that have ended; `own_key` is the key of this build."""
        PulledImages(self.engine, self.naming).remove_left(own_key)
        for container in self.engine.containers.with_labels({}):
            key = self.naming.key_of_build_container(container.name)
            if key and (key == own_key or _has_no_builder(self.naming.root, key)):
                self.engine.containers.remove(container.id)

    def remove_images(self) -> list[str]:
        """Remove images of this home that no finished environment needs; return their names.

        Removes none while a build runs, and no image that a container uses.
        """
        with try_exclusive_lock(builders_lock(self.naming.root)) as free:
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
            PulledImages(self.engine, self.naming).remove_all_but(needed)
            self._forget()
            return removed

    def _needed(self) -> set[str]:
        folders = (ImageFolder(self.naming.root, entry.parent.name) for entry in self.naming.root.glob("*/.ready"))
        found = [details for folder in folders if (details := folder.details())]
        return {name for details in found for name in (*details.names, *details.brought)}

    def _removed(self, name: str) -> bool:
        with suppress(ImageInUse):
            return self.engine.images.remove(name)
        return False

    def _forget(self) -> None:
        notes = notes_root(self.naming.root)
        for folder in notes.iterdir() if notes.is_dir() else ():
            if self.engine.images.find(f"sha256:{folder.name}") is None:
                shutil.rmtree(folder, ignore_errors=True)


def _plain(name: str) -> str:
    """podman prefixes names without a registry with localhost/."""
    return name.removeprefix("localhost/")


@dataclass(frozen=True)
class _Name:
    name: str
    is_private: bool
    key: str
    """Key of the environment that it was pulled for."""


@dataclass(frozen=True)
class PulledImages:
    """Records which image names our builds added to the engine, so that they can be removed.

    A name is recorded before it is pulled, so names of a killed build are known too. Names that were there before
    belong to others and are never removed.
    """

    engine: ContainerEngine
    naming: ImageNames

    @contextmanager
    def record_pull(self, names: Mapping[str, bool], key: str) -> Iterator[None]:
        """Record names while they are pulled. `names` maps each to whether it is private, that is, needed a password.

        A private name is removed at exit: other users have not shown that they may read the image.
        """
        new = [_Name(name, is_private, key) for name, is_private in names.items() if self._is_new(name)]
        for one in new:
            replace_file(self._file(one.name), json.dumps(asdict(one)).encode())
        try:
            yield
        finally:
            for one in new:
                if one.is_private or self.engine.images.find(one.name) is None:
                    self._remove(one)

    def of(self, names: Collection[str]) -> tuple[str, ...]:
        """The given names that our builds added."""
        return tuple(sorted(name for name in names if self._file(name).exists()))

    def is_temporary(self, name: str) -> bool:
        """Whether the name exists only while a build that has the password runs."""
        one = _read(self._file(name))
        return one is not None and one.is_private

    def remove_left(self, own_key: str = "") -> None:
        """Remove private names of builds that have ended; `own_key` is the key of this build."""
        for one in self._all():
            if one.is_private and (one.key == own_key or _has_no_builder(self.naming.root, one.key)):
                self._remove(one)

    def remove_all_but(self, needed: Collection[str]) -> None:
        for one in self._all():
            if one.name not in needed:
                self._remove(one)

    def _is_new(self, name: str) -> bool:
        return self._file(name).exists() or self.engine.images.find(name) is None

    def _remove(self, one: _Name) -> None:
        with suppress(ImageInUse):
            self.engine.images.remove(one.name)
            self._file(one.name).unlink(missing_ok=True)

    def _all(self) -> list[_Name]:
        return [one for file in sorted(self._folder.glob("*.json")) if (one := _read(file))]

    def _file(self, name: str) -> Path:
        repository, tag = split_tag(name)
        return self._folder / f"{hashlib.sha256(f'{repository}:{tag}'.encode()).hexdigest()[:32]}.json"

    @property
    def _folder(self) -> Path:
        return self.naming.root / "locks" / "brought"  # the name on disk


def _read(file: Path) -> _Name | None:
    try:
        return _Name(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _has_no_builder(root: Path, key: str) -> bool:
    with try_exclusive_lock(EnvironmentFolder(root, key).builder_lock) as free:
        return free
