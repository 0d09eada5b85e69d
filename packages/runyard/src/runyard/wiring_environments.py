"""Builds what stands around environments."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runyard.environments.images.record import ImageFolder
from runyard.environments.making import Environments, forget
from runyard.environments.provisions import Provisions
from runyard.foundation import Foundation
from runyard.run_folders import environments_root
from runyard.services.built_environments import BuiltEnvironments, ImageOf
from runyard.services.environment_names import EnvironmentNames
from runyard.services.incoming_environments import IncomingEnvironments
from runyard.services.package_settings import WorkspacePackages
from runyard.services.private_addresses import PrivateAddresses
from runyard.services.registries import RegistryLogins
from runyard.services.run_environments import RunEnvironments
from runyard.services.secrets import Vault
from runyard.services.workspaces import Workspaces

SHOWN_OF_IMAGES = ("name", "id", "registry", "dockerfile", "python")


@dataclass(frozen=True)
class EnvironmentServices:
    root: Path
    packages: WorkspacePackages
    logins: RegistryLogins
    addresses: PrivateAddresses
    incoming: IncomingEnvironments
    of_runs: RunEnvironments
    built: BuiltEnvironments
    image_of: ImageOf

    def builder(self, variables: Mapping[str, str], provisions: Provisions | None = None) -> Environments:
        """On this machine, with a submitter's variables."""
        return Environments(self.root, variables, lambda: provisions or Provisions())

    def forget(self, key: str) -> bool:
        """Remove the built environment of that key; False where it is in use, and stays."""
        return forget(self.root, key)


def build_environments(base: Foundation, workspaces: Workspaces, vault: Vault) -> EnvironmentServices:
    root, assets = environments_root(base.settings.home), base.stores.assets
    logins, addresses = RegistryLogins(vault), PrivateAddresses(vault)
    incoming = IncomingEnvironments(logins, addresses, base.blobs)
    names = EnvironmentNames(assets, base.clock)

    def image_of(key: str) -> Mapping[str, Any] | None:
        found = ImageFolder(root, key).details() if key else None
        return None if found is None else {name: getattr(found, name) for name in SHOWN_OF_IMAGES}

    return EnvironmentServices(
        root=root,
        packages=WorkspacePackages(vault, workspaces),
        logins=logins,
        addresses=addresses,
        incoming=incoming,
        of_runs=RunEnvironments(incoming, names, allows_host_access=base.settings.allows_container_host_access),
        built=BuiltEnvironments(assets, names, image_of),
        image_of=image_of,
    )
