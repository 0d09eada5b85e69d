import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.containers.engine import Engine
from runyard.containers.failures import ImageInUse
from runyard.containers.registries import split_tag
from runyard.environments.durable import locked_if_free, write_beside
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.images.naming import Naming


@dataclass(frozen=True)
class _Name:
    name: str
    is_private: bool
    key: str
    """Key of the environment that it was pulled for."""


@dataclass(frozen=True)
class BroughtNames:
    """Records which image names our builds added to the engine, so that they can be removed.

    A name is recorded before it is pulled, so names of a killed build are known too. Names that were there before
    belong to others and are never removed.
    """

    engine: Engine
    naming: Naming

    @contextmanager
    def record_pull(self, names: Mapping[str, bool], key: str) -> Iterator[None]:
        """Record names while they are pulled. `names` maps each to whether it is private, that is, needed a password.

        A private name is removed at exit: other users have not shown that they may read the image.
        """
        new = [_Name(name, is_private, key) for name, is_private in names.items() if self._is_new(name)]
        for one in new:
            write_beside(self._file(one.name), json.dumps(asdict(one)).encode())
        try:
            yield
        finally:
            for one in new:
                if one.is_private or self.engine.images.find(one.name) is None:
                    self._remove(one)

    def of(self, names: Collection[str]) -> tuple[str, ...]:
        """The given names that our builds added."""
        return tuple(sorted(name for name in names if self._file(name).exists()))

    def is_passing(self, name: str) -> bool:
        """Whether the name exists only while a build that has the password runs."""
        one = _read(self._file(name))
        return one is not None and one.is_private

    def remove_left(self, own_key: str = "") -> None:
        """Remove private names of builds that have ended; `own_key` is the key of this build."""
        for one in self._all():
            if one.is_private and (one.key == own_key or self._has_no_builder(one.key)):
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

    def _has_no_builder(self, key: str) -> bool:
        with locked_if_free(EnvironmentFolder(self.naming.root, key).builder_lock) as free:
            return free

    def _all(self) -> list[_Name]:
        return [one for file in sorted(self._folder.glob("*.json")) if (one := _read(file))]

    def _file(self, name: str) -> Path:
        repository, tag = split_tag(name)
        return self._folder / f"{hashlib.sha256(f'{repository}:{tag}'.encode()).hexdigest()[:32]}.json"

    @property
    def _folder(self) -> Path:
        return self.naming.root / "locks" / "brought"


def _read(file: Path) -> _Name | None:
    try:
        return _Name(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
