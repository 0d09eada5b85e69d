"""Image environments that are built: found with one question to the engine, and without what building them takes."""

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
    """The engine of this machine; what the submitter has chosen is asked first where the machine's own processes chose
    none. EnvironmentFailed where there is none."""
    if is_chosen(os.environ) or not is_chosen(variables):
        return find_engine(os.environ)
    try:
        return find_engine({**os.environ, **variables})
    except EnvironmentFailed as silent:
        try:
            return find_engine(os.environ)  # The submitter's choice may be that of another machine.
        except EnvironmentFailed:
            raise silent from None


class FoundImages(UvEnvironments):
    """Environments that lie in container images, each with a folder of facts below `root`."""

    def _folder(self, spec: EnvironmentSpec) -> EnvironmentFolder:
        return _AskingFolder(self._root, key_of(spec), self._variables)


class _AskingFolder(ImageFolder):
    """Finds what the engine has as well."""

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
