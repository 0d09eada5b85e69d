import pytest

from runyard.datastores import open_store
from runyard.model.data import NetworkRules, StoreAccess
from runyard.ports.data import DataStore
from runyard.testing.data_store_suite import DataStoreSuite


class TestFolderStore(DataStoreSuite):
    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> DataStore:
        folder = tmp_path_factory.mktemp("store")
        return open_store(StoreAccess("folder", str(folder)), NetworkRules())
