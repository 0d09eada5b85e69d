from functools import partial

from runyard.model.data import DataForAttempt
from runyard.model.runs import AttemptId
from runyard.node.service_client import ServiceClient, patiently, quoted
from runyard.planning.data_json import data_from_json

ANSWER_SECONDS = 3600.0
"""The service lists whole datastores before it answers."""


def ask_for_data(client: ServiceClient, attempt_id: AttemptId, *, stores_only: bool = False) -> DataForAttempt:
    """Where the attempt's data is, with the credentials to reach it: for memory alone. Raises RunyardError."""
    address = f"/attempts/{quoted(attempt_id)}/data{'?stores=1' if stores_only else ''}"
    return data_from_json(patiently(partial(client.ask, "GET", address)))
