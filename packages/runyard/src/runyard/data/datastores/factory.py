from pathlib import Path

from runyard.core.errors import InvalidArgument
from runyard.core.ports.data import DataStore
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores.folder_store import FolderStore

OBJECT_KINDS = ("azure", "gcs", "s3")


def open_store(access: StoreAccess, rules: NetworkRules) -> DataStore:
    """Return the store for `access` without contacting it. Raises AccessDenied for an address that is not allowed."""
    # Imported on first use: most runs have only folders, and start sooner without the other stores.
    if access.kind == "folder":
        return FolderStore(Path(access.root))
    if access.kind == "web":
        from runyard.data.http.store import WebStore

        return WebStore(rules, access.root)
    if access.kind in OBJECT_KINDS:
        from runyard.data.datastores.objects.store import ObjectStore

        return ObjectStore(access, rules)
    if access.kind == "service":
        from runyard.data.datastores.service_store import ServiceStore

        return ServiceStore(access, rules)
    raise InvalidArgument(
        f"{access.kind!r} is not a kind of datastore.", hint=f"Kinds are folder, web, {', '.join(OBJECT_KINDS)}."
    )
