import pytest

from runyard.core.ports.stores import (
    AssetStore,
    FileStore,
    LineageStore,
    MetricStore,
    NodeStore,
    NodeTaskStore,
    RunStore,
    TrialStore,
)
from runyard.storage.sql.stores import Stores
from runyard.testing.asset_store_suite import AssetStoreSuite
from runyard.testing.file_store_suite import FileStoreSuite
from runyard.testing.lineage_store_suite import LineageStoreSuite
from runyard.testing.metric_store_suite import MetricStoreSuite
from runyard.testing.node_store_suite import NodeStoreSuite
from runyard.testing.node_task_store_suite import NodeTaskStoreSuite
from runyard.testing.run_store_suite import RunListingSuite, RunStoreSuite
from runyard.testing.trial_store_suite import TrialStoreSuite


class TestSqlRunStore(RunStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> RunStore:
        return stores.runs


class TestSqlRunListing(RunListingSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> RunStore:
        return stores.runs

    @pytest.fixture
    def metrics(self, stores: Stores) -> MetricStore:
        return stores.metrics


class TestSqlMetricStore(MetricStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> MetricStore:
        return stores.metrics

    @pytest.fixture
    def runs(self, stores: Stores) -> RunStore:
        return stores.runs


class TestSqlFileStore(FileStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> FileStore:
        return stores.files

    @pytest.fixture
    def runs(self, stores: Stores) -> RunStore:
        return stores.runs

    @pytest.fixture
    def assets(self, stores: Stores) -> AssetStore:
        return stores.assets


class TestSqlTrialStore(TrialStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> TrialStore:
        return stores.trials

    @pytest.fixture
    def runs(self, stores: Stores) -> RunStore:
        return stores.runs

    @pytest.fixture
    def metrics(self, stores: Stores) -> MetricStore:
        return stores.metrics


class TestSqlAssetStore(AssetStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> AssetStore:
        return stores.assets


class TestSqlNodeStore(NodeStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> NodeStore:
        return stores.nodes


class TestSqlLineageStore(LineageStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> LineageStore:
        return stores.lineage

    @pytest.fixture
    def runs(self, stores: Stores) -> RunStore:
        return stores.runs


class TestSqlPartStore(NodeTaskStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> NodeTaskStore:
        return stores.parts

    @pytest.fixture
    def runs(self, stores: Stores) -> RunStore:
        return stores.runs
