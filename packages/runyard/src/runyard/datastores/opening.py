from pathlib import Path

from runyard.datastores.folders.store import FolderStore
from runyard.errors import InvalidArgument
from runyard.model.data import NetworkRules, StoreAccess
from runyard.ports.data import DataStore

OBJECT_KINDS = ("azure", "gcs", "s3")


def open_store(access: StoreAccess, rules: NetworkRules) -> DataStore:
    """Return the store for `access` without contacting it. Raises AccessDenied for an address that is not allowed."""
    # Imported on first use: most runs have only folders, and start sooner without the other stores.
    if access.kind == "folder":
        return FolderStore(Path(access.root))
    if access.kind == "web":
        from runyard.web.store import WebStore

        return WebStore(rules, access.root)
    if access.kind in OBJECT_KINDS:
        from runyard.datastores.objects.store import ObjectStore

        return ObjectStore(access, rules)
    if access.kind == "service":
        from runyard.datastores.service.store import ServiceStore

        return ServiceStore(access, rules)
    raise InvalidArgument(
        f"{access.kind!r} is not a kind of datastore.", hint=f"Kinds are folder, web, {', '.join(OBJECT_KINDS)}."
    )
