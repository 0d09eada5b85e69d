"""Finished image environments: their records on disk, and whether the engine still has the image.

Kept apart from the build code, which is slow to import.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.core.durable_files import replace_file
from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.containers.engine import ContainerEngine, find_engine, names_engine
from runyard.environments.folder import EnvironmentFacts, EnvironmentFolder, environment_key
from runyard.environments.lockfile import LockFile
from runyard.environments.uv_environments import UvEnvironments


def local_engine(variables: Mapping[str, str]) -> ContainerEngine:
    """Find the container engine of this machine: as this process's variables say, else as the submitter's do, else at
    the default sockets. Raises EnvironmentFailed if there is none."""
    if names_engine(os.environ) or not names_engine(variables):
        return find_engine(os.environ)
    try:
        return find_engine({**os.environ, **variables})
    except EnvironmentFailed as unreachable:
        try:
            return find_engine(os.environ)  # the submitter's variables may be for another machine
        except EnvironmentFailed:
            raise unreachable from None


class BuiltImages(UvEnvironments):
    """Finds environments in container images; each has a folder with its record below `root`."""

    def _folder(self, spec: EnvironmentSpec) -> EnvironmentFolder:
        return _EngineCheckedFolder(self._root, environment_key(spec), self._variables)


@dataclass(frozen=True)
class ImageDetails:
    """Result of `get_image_details`, and the stored record of an image environment."""

    name: str
    id: str
    registry: str
    dockerfile: str
    """An equivalent Dockerfile, for people to read."""
    python: str
    """Path of the environment's interpreter in the image."""
    names: tuple[str, ...] = ()
    """Names of its own image and of our images below it."""
    brought: tuple[str, ...] = ()  # the name in the stored record
    """Names of base images that our builds pulled for it."""
    bytes: int = 0
    """Disk space that it added to the engine."""


class ImageFolder(EnvironmentFolder):
    """The folder of one image environment: its record; the image itself is in the engine."""

    @property
    def fresh(self) -> Path:
        """Marker file: the next build pulls the base image again."""
        return self.lock.with_suffix(".fresh")

    def details(self) -> ImageDetails | None:
        """The record; None if there is no finished environment, or it is not an image."""
        facts = self.facts()
        if not facts or not facts.image:
            return None
        lists = {name: tuple(facts.image.get(name, ())) for name in ("names", "brought")}
        return ImageDetails(**{**facts.image, **lists})

    def recorded(self) -> BuiltEnvironment | None:
        """The finished environment; does not ask whether the engine still has its image."""
        facts = self.facts()
        return self._recorded(facts) if facts and facts.image else None

    def mark_used(self) -> None:
        os.utime(self.ready)

    def finish_image(
        self, lock: LockFile, details: ImageDetails, path_variables: Mapping[str, str]
    ) -> BuiltEnvironment:
        """Mark the build complete; `find` returns it afterwards."""
        self.path.mkdir(parents=True, exist_ok=True)
        facts = EnvironmentFacts(
            lock.text(), lock.python, 0, path_variables=dict(path_variables), image=asdict(details)
        )
        replace_file(self.ready, json.dumps(asdict(facts)).encode(), durable=True)
        return self._recorded(facts)

    def _recorded(self, facts: EnvironmentFacts) -> BuiltEnvironment:
        python, image = Path(facts.image["python"]), str(facts.image["id"])
        return BuiltEnvironment(self.key, python, facts.whole_lock, facts.path_variables, image)


class _EngineCheckedFolder(ImageFolder):
    """A folder whose `find` also asks the engine for the image."""

    def __init__(self, root: Path, key: str, variables: Mapping[str, str]) -> None:
        super().__init__(root, key)
        self._variables = variables

    def find(self) -> BuiltEnvironment | None:
        built = self.recorded()
        try:
            if built is None or local_engine(self._variables).images.find(built.image) is None:
                return None
            self.mark_used()
        except (EnvironmentFailed, OSError):
            return None
        return built
