from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runyard.environments.folder import key_of
from runyard.environments.making import Environments, forget
from runyard.model.images import ImageSpec
from runyard.model.plan import EnvironmentSpec
from runyard.model.runs import RunRecord
from runyard.planning.variables import submitter_variables
from runyard.ports.environments import BuiltEnvironment
from runyard.services.built_environments import BuiltEnvironments
from runyard.services.environments import Environments as KeptEnvironments
from runyard.services.package_settings import WorkspacePackages
from runyard.services.registries import RegistryLogins


@dataclass(frozen=True)
class LaunchEnvironments:
    """The environments of runs, as launching asks for them: those built on this machine, and those that nodes made."""

    root: Path
    packages: WorkspacePackages
    logins: RegistryLogins
    built: BuiltEnvironments
    kept: KeptEnvironments

    def key_of(self, spec: EnvironmentSpec) -> str:
        """The same for specs that one environment serves."""
        return key_of(spec)

    def find(self, run: RunRecord, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """What this machine has for it, seen with the submitter's variables."""
        return Environments(self.root, submitter_variables(run.definition)).find(spec)

    def is_kept(self, run: RunRecord, spec: EnvironmentSpec) -> bool:
        """Whether nodes that share no files with us can make it from what the workspace keeps."""
        return self.kept.known(run.workspace, key_of(spec))

    def sources(self, run: RunRecord) -> str:
        """What tells apart environments by the indexes that packages come from: the workspace's or the submitter's."""
        return self.packages.sources(run.workspace, submitter_variables(run.definition))

    def login(self, run: RunRecord, image: ImageSpec) -> str:
        """What tells apart images by the logins that the workspace has to their registries."""
        return self.logins.shown(run.workspace, image)

    def note_built(self, run: RunRecord, key: str) -> None:
        """That the run has the environment of that key."""
        self.built.note(run, key)

    def forget_built(self, key: str) -> bool:
        """Remove the built environment of that key from this machine; False where it is in use, and stays."""
        return forget(self.root, key)

    def image_of(self, built: BuiltEnvironment) -> Mapping[str, Any] | None:
        """What is known of the container image that it lies in."""
        return self.built.image_of(built.key)
