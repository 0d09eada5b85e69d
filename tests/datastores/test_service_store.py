import itertools
from collections.abc import Iterator

import pytest

from runyard.datastores import open_store
from runyard.model.data import NetworkRules, StoreAccess
from runyard.ports.data import DataStore
from runyard.testing.data_store_suite import DataStoreSuite
from tests.open_service import OpenService, serving_outside

QUICK = NetworkRules(retry_seconds=2.0, silence_seconds=5.0)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenService]:
    with serving_outside(tmp_path_factory.mktemp("outside")) as served:
        yield served


@pytest.fixture
def access(outside: OpenService, tmp_path_factory: pytest.TempPathFactory) -> StoreAccess:
    """The own datastore of a fresh workspace, as a node elsewhere reaches it."""
    workspace = f"space{next(_numbers)}"
    outside.owner.put(f"/workspaces/{workspace}", {"exist_ok": True})
    home = outside.node_home(tmp_path_factory.mktemp("node"))
    token = outside.facts["token"]
    return StoreAccess("service", f"{workspace}/workspaceblobstore", {"home": str(home)}, {"token": token})


class TestServiceStore(DataStoreSuite):
    @pytest.fixture
    def store(self, access: StoreAccess) -> DataStore:
        return open_store(access, QUICK)
