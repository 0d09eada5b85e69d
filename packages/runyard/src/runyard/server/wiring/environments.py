"""Wiring of the use cases around environments."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runyard.assets.secrets import Vault
from runyard.assets.workspaces import Workspaces
from runyard.core.run_folders import environments_root
from runyard.environments.builder import LocalEnvironments
from runyard.environments.package_sources import BuildSettings
from runyard.environments.workspace.built_environments import BuiltEnvironments
from runyard.environments.workspace.intake import EnvironmentIntake
from runyard.environments.workspace.locks import EnvironmentLocks as KeptEnvironments
from runyard.environments.workspace.names import EnvironmentNames
from runyard.environments.workspace.package_settings import WorkspacePackages
from runyard.environments.workspace.secrets import PrivateAddresses, RegistryLogins
from runyard.runs.scheduling.launcher import LaunchEnvironments
from runyard.runs.submit import RunEnvironments
from runyard.server.wiring.core import Core


@dataclass(frozen=True)
class EnvironmentServices:
    root: Path
    packages: WorkspacePackages
    logins: RegistryLogins
    addresses: PrivateAddresses
    incoming: EnvironmentIntake
    of_runs: RunEnvironments
    built: BuiltEnvironments
    of_launches: LaunchEnvironments

    def builder(self, variables: Mapping[str, str], provisions: BuildSettings | None = None) -> LocalEnvironments:
        """Builder of environments on this machine, with a submitter's variables."""
        return LocalEnvironments(self.root, variables, lambda: provisions or BuildSettings())


def build_environments(base: Core, workspaces: Workspaces, vault: Vault) -> EnvironmentServices:
    root, assets = environments_root(base.settings.home), base.stores.assets
    logins, addresses = RegistryLogins(vault), PrivateAddresses(vault)
    incoming = EnvironmentIntake(logins, addresses, base.callers_blobs)
    names = EnvironmentNames(assets, base.clock)
    packages, built = WorkspacePackages(vault, workspaces), BuiltEnvironments(assets, names, root, base.access)
    kept = KeptEnvironments(base.runs, assets, base.callers_blobs, base.clock, base.access)
    return EnvironmentServices(
        root=root,
        packages=packages,
        logins=logins,
        addresses=addresses,
        incoming=incoming,
        of_runs=RunEnvironments(incoming, names, allows_host_access=base.settings.allows_container_host_access),
        built=built,
        of_launches=LaunchEnvironments(root, packages, logins, built, kept),
    )
