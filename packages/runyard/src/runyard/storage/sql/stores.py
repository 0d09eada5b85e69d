from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runyard.core.ports.stores import (
    AssetStore,
    FileStore,
    LineageStore,
    MetricStore,
    NodeStore,
    NodeTaskStore,
    RunStore,
    RunTransfer,
    TrialStore,
)
from runyard.storage.sql.assets import SqlAssetStore
from runyard.storage.sql.database import Database, open_database, utc_now
from runyard.storage.sql.files import SqlFileStore
from runyard.storage.sql.lineage import SqlLineageStore
from runyard.storage.sql.metrics import SqlMetricStore
from runyard.storage.sql.migration import migrate
from runyard.storage.sql.nodes import SqlNodeStore, SqlNodeTaskStore
from runyard.storage.sql.run_transfer import SqlRunTransfer
from runyard.storage.sql.runs import SqlRunStore
from runyard.storage.sql.trials import SqlTrialStore


@dataclass(frozen=True)
class Stores:
    """Every store of one database."""

    database: Database
    runs: RunStore
    metrics: MetricStore
    files: FileStore
    assets: AssetStore
    nodes: NodeStore
    parts: NodeTaskStore
    lineage: LineageStore
    trials: TrialStore
    transfer: RunTransfer

    def close(self) -> None:
        self.database.close()


def open_stores(
    url: str,
    *,
    now: Callable[[], datetime] = utc_now,
    copies: Path | None = None,
    check_new: Callable[[], None] = lambda: None,
) -> Stores:
    """Open the database (see `open_database`) and upgrade its tables (see `migrate`)."""
    database = open_database(url, now=now)
    try:
        migrate(database, copies=copies, check_new=check_new)
    except BaseException:
        database.close()
        raise
    return Stores(
        database,
        SqlRunStore(database),
        SqlMetricStore(database),
        SqlFileStore(database),
        SqlAssetStore(database),
        SqlNodeStore(database),
        SqlNodeTaskStore(database),
        SqlLineageStore(database),
        SqlTrialStore(database),
        SqlRunTransfer(database),
    )
