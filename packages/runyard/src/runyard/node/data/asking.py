from dataclasses import replace
from functools import partial
from pathlib import Path

from runyard.client import ServiceClient, patiently, quoted
from runyard.model.data import DataForAttempt, StoreAccess
from runyard.model.runs import AttemptId
from runyard.planning.data_json import data_from_json

ANSWER_SECONDS = 3600.0
"""The service lists whole datastores before it answers."""


def ask_for_data(
    client: ServiceClient, home: Path, attempt_id: AttemptId, *, stores_only: bool = False, shares_files: bool = True
) -> DataForAttempt:
    """Where the attempt's data is, with the credentials to reach it: for memory alone. Raises RunyardError.
    A node that does not share the service's files gets its folders through the service."""
    wishes = ["stores=1"] * stores_only + ["apart=1"] * (not shares_files)
    address = f"/attempts/{quoted(attempt_id)}/data{'?' if wishes else ''}{'&'.join(wishes)}"
    data = data_from_json(patiently(partial(client.get, address)))
    stores = {name: _reached_from_here(access, home, client.token) for name, access in data.stores.items()}
    return replace(data, stores=stores)


def _reached_from_here(access: StoreAccess, home: Path, token: str) -> StoreAccess:
    """Where the service is, and by which token it is asked, is this node's own knowledge."""
    if access.kind != "service":
        return access
    return replace(access, options={**access.options, "home": str(home)}, secrets={"token": token})
