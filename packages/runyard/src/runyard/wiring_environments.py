"""Wiring of the use cases around environments."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runyard.environments.making import Environments
from runyard.environments.provisions import Provisions
from runyard.foundation import Foundation
from runyard.run_folders import environments_root
from runyard.runs.run_environments import RunEnvironments
from runyard.runs.scheduling.environments import LaunchEnvironments
from runyard.services.built_environments import BuiltEnvironments
from runyard.services.environment_names import EnvironmentNames
from runyard.services.environments import Environments as KeptEnvironments
from runyard.services.incoming_environments import IncomingEnvironments
from runyard.services.package_settings import WorkspacePackages
from runyard.services.private_addresses import PrivateAddresses
from runyard.services.registries import RegistryLogins
from runyard.services.secrets import Vault
from runyard.services.workspaces import Workspaces


@dataclass(frozen=True)
class EnvironmentServices:
    root: Path
    packages: WorkspacePackages
    logins: RegistryLogins
    addresses: PrivateAddresses
    incoming: IncomingEnvironments
    of_runs: RunEnvironments
    built: BuiltEnvironments
    of_launches: LaunchEnvironments

    def builder(self, variables: Mapping[str, str], provisions: Provisions | None = None) -> Environments:
        """Builder of environments on this machine, with a submitter's variables."""
        return Environments(self.root, variables, lambda: provisions or Provisions())


def build_environments(base: Foundation, workspaces: Workspaces, vault: Vault) -> EnvironmentServices:
    root, assets = environments_root(base.settings.home), base.stores.assets
    logins, addresses = RegistryLogins(vault), PrivateAddresses(vault)
    incoming = IncomingEnvironments(logins, addresses, base.callers_blobs)
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
