from dataclasses import replace
from functools import partial
from pathlib import Path

from runyard.client import ServiceClient, patiently, quoted
from runyard.model.data import DataForAttempt, StoreAccess
from runyard.model.runs import AttemptId
from runyard.planning.data_json import data_from_json

ANSWER_SECONDS = 3600.0
"""The service lists whole datastores before it answers, which may take long."""


def ask_for_data(
    client: ServiceClient, home: Path, attempt_id: AttemptId, *, stores_only: bool = False, shares_files: bool = True
) -> DataForAttempt:
    """Ask the service where the attempt's data is, with credentials, which stay in memory. Raises RunyardError.

    A node that shares no files with the service gets local folders through the service.
    """
    parameters = ["stores=1"] * stores_only + ["apart=1"] * (not shares_files)
    address = f"/attempts/{quoted(attempt_id)}/data{'?' if parameters else ''}{'&'.join(parameters)}"
    data = data_from_json(patiently(partial(client.get, address)))
    stores = {name: _reached_from_here(access, home, client.token) for name, access in data.stores.items()}
    return replace(data, stores=stores)


def _reached_from_here(access: StoreAccess, home: Path, token: str) -> StoreAccess:
    """Fill in the service's address and this node's token for a store that the service serves."""
    if access.kind != "service":
        return access
    return replace(access, options={**access.options, "home": str(home)}, secrets={"token": token})
