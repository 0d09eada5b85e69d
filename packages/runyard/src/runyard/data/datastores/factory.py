from pathlib import Path
from pkgutil import resolve_name

from runyard.core.errors import InvalidArgument
from runyard.core.ports.data import DataStore
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores.folder_store import FolderStore

OBJECT_KINDS = ("azure", "gcs", "s3")
# Imported on first use: most runs have only folders, and start sooner without httpcore and obstore.
STORES = {
    "web": "runyard.data.http.store:WebStore",
    "service": "runyard.data.datastores.service_store:ServiceStore",
    **dict.fromkeys(OBJECT_KINDS, "runyard.data.datastores.objects.store:ObjectStore"),
}
"""module:attribute of the store of each kind but `folder`."""


def open_store(access: StoreAccess, rules: NetworkRules) -> DataStore:
    """Return the store for `access` without contacting it. Raises AccessDenied for an address that is not allowed."""
    if access.kind == "folder":
        return FolderStore(Path(access.root))
    if access.kind not in STORES:
        raise InvalidArgument(
            f"{access.kind!r} is not a kind of datastore.", hint=f"Kinds are folder, web, {', '.join(OBJECT_KINDS)}."
        )
    store_class = resolve_name(STORES[access.kind])
    store: DataStore = store_class(rules, access.root) if access.kind == "web" else store_class(access, rules)
    return store
