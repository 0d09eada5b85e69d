import json
import threading
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path

from runyard.assets.secrets import Vault
from runyard.core.errors import NotFound
from runyard.core.expiring_cache import ExpiringCache
from runyard.core.names import check_asset_name, check_workspace_name
from runyard.core.ports.data import DataStore
from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.data import WEB, NetworkRules, StoreAccess
from runyard.data.datasets.datastore_kinds import KINDS, WORKSPACE_KIND
from runyard.data.datastores.factory import open_store

MOST_KEPT_OPEN = 64
REMEMBERED_SECONDS = 2.0
_WEB_ACCESS = StoreAccess("web", "")
CREDENTIALS_KEY = "credentials_id"
"""Field of a datastore's body: the name of its credentials in the vault."""


class OpenDatastores:
    """Opens datastores by name, and reuses an open one as long as it and the network rules are unchanged.

    A store that was changed or evicted is freed after its last use. `own` is the root of the default datastores of all
    workspaces.
    """

    def __init__(self, assets: AssetStore, vault: Vault, own: StoreAccess) -> None:
        self._assets, self._vault, self._own = assets, vault, own
        self._recent: ExpiringCache[tuple[str, str], Asset] = ExpiringCache(MOST_KEPT_OPEN, REMEMBERED_SECONDS)
        self._open: OrderedDict[Hashable, DataStore] = OrderedDict()
        self._lock = threading.Lock()

    def access(self, workspace: str, name: str) -> StoreAccess:
        """Access with credentials; WEB names the store of web addresses. Raises NotFound with the known datastores."""
        return _WEB_ACCESS if name == WEB else self._access(self._asset(workspace, name))

    def has_operators_secrets(self, workspace: str, name: str) -> bool:
        """Whether it is a default datastore in a bucket that the operator's credentials open."""
        if name == WEB or not self._own.secrets:
            return False
        return bool(self._asset(workspace, name).body.get("kind", WORKSPACE_KIND) == WORKSPACE_KIND)

    def open(self, workspace: str, name: str, rules: NetworkRules) -> DataStore:
        asset = None if name == WEB else self._asset(workspace, name)
        key = (*((asset.id, asset.revision) if asset else (WEB, 0)), *_key_of(rules))
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
        opened = open_store(self._access(asset) if asset else _WEB_ACCESS, rules)
        with self._lock:
            self._open[key] = opened
            while len(self._open) > MOST_KEPT_OPEN:
                self._open.popitem(last=False)
        return opened

    def credentials(self, datastore: Asset) -> dict[str, str]:
        secret = datastore.body.get(CREDENTIALS_KEY)
        if not secret:
            return {}
        found: dict[str, str] = json.loads(self._vault.get(datastore.workspace, secret))
        return found

    def _access(self, datastore: Asset) -> StoreAccess:
        kind = datastore.body.get("kind", WORKSPACE_KIND)
        if kind == WORKSPACE_KIND:
            return self._own_access(datastore.workspace, datastore.name)
        return KINDS[kind].access(datastore.body.get("settings") or {}, self.credentials(datastore))

    def _own_access(self, workspace: str, name: str) -> StoreAccess:
        own = self._own
        root = f"{own.root}/{workspace}/{name}"
        if own.kind == "folder":
            Path(root).mkdir(parents=True, exist_ok=True)
        return StoreAccess(own.kind, root, own.options, own.secrets)

    def forget(self, workspace: str, name: str) -> None:
        """Forget a datastore that was changed or unregistered."""
        self._recent.drop((workspace, name))

    def _asset(self, workspace: str, name: str) -> Asset:
        found = self._recent.get((workspace, name))
        if found is None:
            found = self._read_asset(workspace, name)
            self._recent.put((workspace, name), found)
        return found

    def _read_asset(self, workspace: str, name: str) -> Asset:
        check_workspace_name(workspace)
        check_asset_name(AssetKind.DATASTORE, name)
        try:
            return self._assets.get(workspace, AssetKind.DATASTORE, name)
        except NotFound:
            known = [store.name for store in self._assets.list(workspace, AssetKind.DATASTORE)]
            listed = ", ".join(f"'{one}'" for one in known[:20]) or "none"
            raise NotFound(f"There is no datastore {name!r} in workspace {workspace!r}. Known: {listed}.") from None


def _key_of(rules: NetworkRules) -> tuple[Hashable, ...]:
    return (*(value for name, value in vars(rules).items() if name != "variables"), frozenset(rules.variables.items()))
