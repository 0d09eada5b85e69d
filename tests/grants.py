"""Who may do what, for use cases that a test builds from their parts."""

from runyard.access.attempt_fence import AttemptFence
from runyard.access.authorization import Access
from runyard.core.principal import Principal, Role
from runyard.core.records.runs import AttemptId, run_of
from runyard.storage.sql.stores import Stores


def access_to(stores: Stores) -> Access:
    return Access(stores.runs, stores.assets, AttemptFence(stores.runs))


def node_of(attempt_id: str) -> Principal:
    """The supervisor of that attempt."""
    return Principal(Role.NODE, run_of(AttemptId(attempt_id)), AttemptId(attempt_id))
