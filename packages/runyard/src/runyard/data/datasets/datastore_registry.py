import json
import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runyard.access.authorization import Access
from runyard.assets.kinds import PlainKind
from runyard.assets.secrets import Vault
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.assets import DatastoreDefinition, StoredDatastore
from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument
from runyard.core.lookups import find_asset
from runyard.core.names import check_asset_name
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.settings import Settings
from runyard.data.datasets.datastore_kinds import (
    WORKSPACE_KIND,
    checked_credentials,
    checked_settings,
    credential_type,
    kind_named,
)
from runyard.data.datasets.network_policy import NetworkPolicy
from runyard.data.datasets.open_datastores import CREDENTIALS_KEY, OpenDatastores
from runyard.data.datastores.factory import open_store
from runyard.data.datastores.root_creation import create_root
from runyard.data.http.address_guard import check_endpoint


@dataclass(frozen=True)
class NewDatastore:
    name: str
    kind: str
    settings: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    overwrite: bool = False
    create_if_not_exists: bool = False
    skip_validation: bool = False


class Datastores:
    """Use cases of registered datastores. Credentials are encrypted in the vault, and never in a body, log or error."""

    def __init__(
        self,
        assets: AssetStore,
        workspaces: Workspaces,
        vault: Vault,
        stores: OpenDatastores,
        network: NetworkPolicy,
        settings: Settings,
        access: Access,
    ) -> None:
        self._assets, self._workspaces, self._vault, self._stores = assets, workspaces, vault, stores
        self._network, self._settings, self._access = network, settings, access
        # Only one service process uses a home, so a lock here is enough to keep names unique.
        self._writing = threading.Lock()

    def register(self, who: Principal, workspace: str, new: NewDatastore) -> Asset:
        """Register a datastore after a check that it responds, unless `skip_validation`.

        Repeating it changes nothing. Raises AlreadyExists if the name has another definition or other credentials,
        unless `overwrite`.
        """
        self._workspaces.enter(who, Action.CREATE_ASSET, workspace)
        check_asset_name(AssetKind.DATASTORE, new.name)
        checked = DatastoreDefinition(
            name=new.name,
            kind=new.kind,
            settings=self._checked_settings(who, new),
            credentials=checked_credentials(new.kind, new.credentials),
        )
        self._check_replacing(who, self._find(workspace, new.name), checked, overwrite=new.overwrite)
        self._check_answers(checked, new)
        return self._store(who, workspace, checked, overwrite=new.overwrite)

    def credentials(self, who: Principal, workspace: str, name: str) -> Mapping[str, str]:
        """Credentials as they were registered. Raises NotFound."""
        self._access.workspace(who, Action.READ_CREDENTIALS, workspace)
        return self._stores.credentials(self._assets.get(workspace, AssetKind.DATASTORE, name))

    def _store(self, who: Principal, workspace: str, new: DatastoreDefinition, *, overwrite: bool) -> Asset:
        """Store the new credentials before the datastore names them, and delete the old ones after."""
        body: dict[str, Any] = {
            "kind": new.kind,
            "settings": new.settings,
            "credential_type": credential_type(new.kind, new.credentials),
            "v1_type": kind_named(new.kind).v1_type,
        }
        with self._writing:
            there = self._find(workspace, new.name)
            self._check_replacing(who, there, new, overwrite=overwrite)
            body["is_default"] = bool(there and there.body.get("is_default"))
            if new.credentials:
                body[CREDENTIALS_KEY] = f"datastores/{new.name}/{uuid.uuid4().hex}"
                self._vault.put(workspace, body[CREDENTIALS_KEY], json.dumps(dict(new.credentials)))
            if there is None:
                return self._assets.add(workspace, AssetKind.DATASTORE, new.name, body, {}, who.name)
            stored = self._assets.replace(there, body, there.tags)
        self._stores.forget(workspace, new.name)
        forget_credentials(self._vault, there)
        return stored

    def _check_replacing(
        self, who: Principal, there: Asset | None, new: DatastoreDefinition, *, overwrite: bool
    ) -> None:
        if there is None:
            return
        if there.body.get("kind", WORKSPACE_KIND) == WORKSPACE_KIND:
            raise AlreadyExists(
                f"{new.name!r} is a datastore that every workspace has.", hint="Choose another datastore_name."
            )
        if overwrite and self._access.may_change(who, there):
            return
        is_same = (there.body["kind"], there.body["settings"]) == (new.kind, new.settings)
        if not is_same or self._stores.credentials(there) != new.credentials:
            if overwrite:
                self._access.asset(who, Action.CHANGE_ASSET, there)
            other = "another definition" if not is_same else "other credentials"
            raise AlreadyExists(
                f"There is a datastore {new.name!r} with {other} already.", hint="Pass overwrite=True to change it."
            )

    def _check_answers(self, checked: DatastoreDefinition, new: NewDatastore) -> None:
        rules = self._network.for_request({})
        access = kind_named(new.kind).access(checked.settings, checked.credentials)
        store = open_store(access, rules)
        if new.create_if_not_exists:
            create_root(access, rules)
        if new.skip_validation:
            return
        if new.kind == "web":  # web addresses cannot be listed
            check_endpoint(access.root, rules)
        else:
            next(iter(store.list("")), None)

    def _checked_settings(self, who: Principal, new: NewDatastore) -> dict[str, str]:
        settings = checked_settings(new.kind, new.settings)
        if new.kind == "folder":
            settings["folder"] = self._checked_folder(who, settings["folder"])
        return settings

    def _checked_folder(self, who: Principal, folder: str) -> str:
        if not os.path.isabs(folder):
            raise InvalidArgument(f"folder {ascii(folder)[:80]} is relative.", hint="Give an absolute path.")
        real = Path(os.path.realpath(folder))
        home = Path(os.path.realpath(self._settings.home))
        is_free = self._settings.is_loopback and self._access.may_open_folders(who)
        if real.is_relative_to(home) or (not is_free and home.is_relative_to(real)):
            raise InvalidArgument(f"folder {folder!r} holds the service's own files.", hint="Choose another folder.")
        allowed = [Path(os.path.realpath(one)) for one in self._settings.data_folders]
        if not is_free and not any(real.is_relative_to(one) for one in allowed):
            raise InvalidArgument(
                f"folder {folder!r} is not one that this service opens.",
                hint="Its operator lists such folders in RUNYARD_DATA_FOLDERS.",
            )
        return str(real)

    def _find(self, workspace: str, name: str) -> Asset | None:
        return find_asset(self._assets, workspace, AssetKind.DATASTORE, name)


class DatastoreRules(PlainKind[StoredDatastore]):
    """Rules of changes: only `is_default`, which exactly one datastore of a workspace has, can be set.

    All else is changed by registering the datastore again.
    """

    is_versioned = False

    def __init__(self, assets: AssetStore, vault: Vault, stores: OpenDatastores, access: Access) -> None:
        self._assets, self._vault, self._stores, self._access = assets, vault, stores, access

    def checked_change(self, who: Principal, seen: Asset, changed: StoredDatastore) -> StoredDatastore:
        """The default can only be changed by making another datastore the default, which changes both."""
        before, now = StoredDatastore(seen.body), changed.raw
        named = sorted(name for name in {*seen.body, *now} if seen.body.get(name) != now.get(name))
        if named not in ([], ["is_default"]):
            raise InvalidArgument(
                f"Only is_default of a datastore can be set; this sets {', '.join(named)}.",
                hint="Register it again with overwrite=True.",
            )
        if changed.is_default:
            for other in self._other_defaults(seen):
                self._access.asset(who, Action.CHANGE_ASSET, other)
        return StoredDatastore({**before.raw, "is_default": before.is_default or changed.is_default})

    def stored(self, asset: Asset) -> None:
        if asset.body.get("is_default"):
            for other in self._other_defaults(asset):
                self._assets.replace(other, {**other.body, "is_default": False}, other.tags)

    def _other_defaults(self, asset: Asset) -> Sequence[Asset]:
        known = self._assets.list(asset.workspace, AssetKind.DATASTORE)
        return [other for other in known if other.name != asset.name and other.body.get("is_default")]

    def before_delete(self, asset: Asset, version: int | None) -> None:
        if asset.body.get("is_default"):
            raise Conflict(
                f"{asset.name!r} is the default datastore of workspace {asset.workspace!r}.",
                hint="Make another one the default first.",
            )

    def deleted(self, asset: Asset) -> None:
        self._stores.forget(asset.workspace, asset.name)
        forget_credentials(self._vault, asset)


def forget_credentials(vault: Vault, datastore: Asset) -> None:
    if secret := datastore.body.get(CREDENTIALS_KEY):
        vault.delete(datastore.workspace, secret)
