from pathlib import Path

from runyard.datastores.folders.store import FolderStore
from runyard.errors import InvalidArgument
from runyard.model.data import NetworkRules, StoreAccess
from runyard.ports.data import DataStore

OBJECT_KINDS = ("azure", "gcs", "s3")


def open_store(access: StoreAccess, rules: NetworkRules) -> DataStore:
    """The store behind that access. Nothing is asked of it yet, but an address that may not be reached is refused."""
    # What folders do not need is loaded by its first use: most runs have nothing else, and begin sooner without.
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
