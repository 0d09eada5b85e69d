from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runyard.environments.folder import key_of
from runyard.environments.making import Environments, forget
from runyard.model.images import ImageSpec
from runyard.model.plan import EnvironmentSpec
from runyard.model.runs import RunRecord
from runyard.planning.submitter_variables import submitter_variables
from runyard.ports.environments import BuiltEnvironment
from runyard.services.built_environments import BuiltEnvironments
from runyard.services.environments import Environments as KeptEnvironments
from runyard.services.package_settings import WorkspacePackages
from runyard.services.registries import RegistryLogins


@dataclass(frozen=True)
class LaunchEnvironments:
    """Finds the environment of a run: built on this machine, or kept by the workspace for other nodes."""

    root: Path
    packages: WorkspacePackages
    logins: RegistryLogins
    built: BuiltEnvironments
    kept: KeptEnvironments

    def key_of(self, spec: EnvironmentSpec) -> str:
        """Cache key of the environment; equal for specs that one environment serves."""
        return key_of(spec)

    def find(self, run: RunRecord, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """Environment on this machine for the spec and the submitter's variables, if built."""
        return Environments(self.root, submitter_variables(run.definition)).find(spec)

    def is_kept(self, run: RunRecord, spec: EnvironmentSpec) -> bool:
        """Whether nodes without our file system can make it from what the workspace keeps."""
        return self.kept.known(run.workspace, key_of(spec))

    def sources(self, run: RunRecord) -> str:
        """Part of the key: the package indexes of the workspace or of the submitter."""
        return self.packages.sources(run.workspace, submitter_variables(run.definition))

    def login(self, run: RunRecord, image: ImageSpec) -> str:
        """Part of the key: the workspace's login to the image's registry."""
        return self.logins.shown(run.workspace, image)

    def note_built(self, run: RunRecord, key: str) -> None:
        """Record that the run uses the environment of that key."""
        self.built.note(run, key)

    def forget_built(self, key: str) -> bool:
        """Remove the built environment from this machine; False if it is in use."""
        return forget(self.root, key)

    def image_of(self, built: BuiltEnvironment) -> Mapping[str, Any] | None:
        """Facts about the container image of the environment, if any."""
        return self.built.image_of(built.key)
