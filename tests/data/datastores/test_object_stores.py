"""The suite on servers that speak the protocols for real."""

import pytest

from runyard.core.ports.data import DataStore
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from runyard.testing.data_store_suite import DataStoreSuite

pytestmark = pytest.mark.servers


class TestAzureContainer(DataStoreSuite):
    @pytest.fixture
    def store(self, azurite_access: StoreAccess) -> DataStore:
        return open_store(azurite_access, NetworkRules())


class TestFolderOfAnS3Bucket(DataStoreSuite):
    @pytest.fixture
    def store(self, s3_access: StoreAccess) -> DataStore:
        return open_store(s3_access, NetworkRules())
