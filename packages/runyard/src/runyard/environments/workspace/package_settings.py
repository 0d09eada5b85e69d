import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from runyard.access.authorization import Access
from runyard.assets.secrets import Vault
from runyard.assets.workspaces import Workspaces
from runyard.core.errors import Conflict, NotFound
from runyard.core.policy import Action
from runyard.core.ports.stores import RunStore
from runyard.core.principal import SERVICE, Principal
from runyard.core.records.environments import PackageSettings, PackageSettingsChange
from runyard.core.records.runs import AttemptId, RunStatus, run_of
from runyard.environments.package_sources import PackageSources
from runyard.environments.planning.image import image_of, registries_of
from runyard.environments.planning.package_settings import changed_settings, settings_from_json, settings_to_json
from runyard.environments.workspace.secrets import PrivateAddresses, RegistryLogins

_SECRET = "packages/settings"


class WorkspacePackages:
    """Package settings of workspaces, stored in the vault since their addresses may contain passwords.

    Cached, since every submit reads them; safe because one service owns a home.
    """

    def __init__(self, vault: Vault, workspaces: Workspaces) -> None:
        self._vault, self._workspaces = vault, workspaces
        self._known: dict[str, PackageSettings] = {}
        self._lock = threading.Lock()
        workspaces.on_delete(self._forget)

    def get(self, who: Principal, workspace: str) -> PackageSettings:
        """The settings with passwords. Raises NotFound for an unknown workspace."""
        self._workspaces.enter(who, Action.READ_WORKSPACE, workspace)
        return self._of(workspace)

    def change(self, who: Principal, workspace: str, changes: PackageSettingsChange) -> PackageSettings:
        """Apply changes; see `changed_settings`. Changes nothing if that raises."""
        self._workspaces.enter(who, Action.CHOOSE_PACKAGES, workspace)
        with self._lock:
            self._known.pop(workspace, None)
            changed = changed_settings(self._read(workspace), changes)
            self._vault.put(workspace, _SECRET, json.dumps(settings_to_json(changed)))
        return changed

    def sources(self, workspace: str, variables: Mapping[str, str]) -> str:
        """Hash of the package sources, which is part of an environment's key; `variables` are the submitter's."""
        return PackageSources(variables, self._of(workspace)).key

    def _of(self, workspace: str) -> PackageSettings:
        known = self._known.get(workspace)
        if known is None:
            with self._lock:
                known = self._known[workspace] = self._read(workspace)
        return known

    def _forget(self, workspace: str) -> None:
        """Drop the cache of a deleted workspace, whose name may be used again."""
        with self._lock:
            self._known.pop(workspace, None)

    def _read(self, workspace: str) -> PackageSettings:
        try:
            return settings_from_json(json.loads(self._vault.get(workspace, _SECRET)))
        except NotFound:
            return PackageSettings()


_BUILT = frozenset({RunStatus.RUNNING, RunStatus.FINALIZING, RunStatus.CANCEL_REQUESTED})


@dataclass(frozen=True)
class AttemptBuildSettings:
    settings: PackageSettings
    registries: Mapping[str, Mapping[str, str]]
    """Users and passwords by registry address."""
    addresses: Mapping[str, str]
    """URLs with passwords, by the marked URLs that stand for them in the environment."""


class AttemptPackages:
    """Settings and secrets for a node that builds the environment of an attempt; they are in no plan or file."""

    def __init__(
        self,
        runs: RunStore,
        packages: WorkspacePackages,
        logins: RegistryLogins,
        addresses: PrivateAddresses,
        access: Access,
    ) -> None:
        self._access = access
        self._runs, self._packages, self._logins, self._addresses = runs, packages, logins, addresses

    def of_attempt(self, who: Principal, attempt_id: AttemptId) -> AttemptBuildSettings:
        """Settings, with only the logins and addresses that the environment needs. Raises Conflict once the script
        runs: the build is over, and the script could read the node's token."""
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        run = self._runs.get(run_of(attempt_id))
        if run.status in _BUILT and not run.is_interactive:
            raise Conflict(f"Run {run.id} is {run.status}: its environment is built.")
        environment = run.definition.environment
        image = image_of(environment)
        registries = self._logins.of(run.workspace, registries_of(image)) if image else {}
        addresses = self._addresses.of(run.workspace, environment.raw)
        return AttemptBuildSettings(self._packages.get(SERVICE, run.workspace), registries, addresses)
