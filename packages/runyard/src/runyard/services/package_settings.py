import json
import threading
from collections.abc import Mapping

from runyard.core.definitions.package_changes import PackageSettingsChange
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.environments.sources import Sources
from runyard.errors import NotFound
from runyard.model.package_settings import PackageSettings
from runyard.planning.package_settings import changed_settings, settings_from_json, settings_to_json
from runyard.services.secrets import Vault
from runyard.services.workspaces import Workspaces

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
        return Sources(variables, self._of(workspace)).key

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
