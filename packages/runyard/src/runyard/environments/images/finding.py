"""Finished image environments: their records on disk, and whether the engine still has the image.

Kept apart from the build code, which is slow to import.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from runyard.containers.engine import Engine
from runyard.containers.finding import find_engine, is_chosen
from runyard.environments.folder import EnvironmentFolder, key_of
from runyard.environments.images.record import ImageFolder
from runyard.environments.uv import UvEnvironments
from runyard.errors import EnvironmentFailed
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment


def engine_here(variables: Mapping[str, str]) -> Engine:
    """Find the container engine of this machine: as this process's variables say, else as the submitter's do, else at
    the default sockets. Raises EnvironmentFailed if there is none."""
    if is_chosen(os.environ) or not is_chosen(variables):
        return find_engine(os.environ)
    try:
        return find_engine({**os.environ, **variables})
    except EnvironmentFailed as unreachable:
        try:
            return find_engine(os.environ)  # the submitter's variables may be for another machine
        except EnvironmentFailed:
            raise unreachable from None


class FoundImages(UvEnvironments):
    """Finds environments in container images; each has a folder with its record below `root`."""

    def _folder(self, spec: EnvironmentSpec) -> EnvironmentFolder:
        return _EngineCheckedFolder(self._root, key_of(spec), self._variables)


class _EngineCheckedFolder(ImageFolder):
    """A folder whose `find` also asks the engine for the image."""

    def __init__(self, root: Path, key: str, variables: Mapping[str, str]) -> None:
        super().__init__(root, key)
        self._variables = variables

    def find(self) -> BuiltEnvironment | None:
        built = self.recorded()
        try:
            if built is None or engine_here(self._variables).images.find(built.image) is None:
                return None
            self.mark_used()
        except (EnvironmentFailed, OSError):
            return None
        return built
