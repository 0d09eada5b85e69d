from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runyard.ports.run_transfer import RunTransfer
from runyard.ports.stores import (
    AssetStore,
    FileStore,
    LineageStore,
    MetricStore,
    NodeStore,
    PartStore,
    RunStore,
    TrialStore,
)
from runyard.stores.assets import SqlAssetStore
from runyard.stores.database import Database, open_database, utc_now
from runyard.stores.files import SqlFileStore
from runyard.stores.lineage import SqlLineageStore
from runyard.stores.metrics import SqlMetricStore
from runyard.stores.migration import migrate
from runyard.stores.nodes import SqlNodeStore
from runyard.stores.parts import SqlPartStore
from runyard.stores.recent_runs import RecentRuns
from runyard.stores.run_transfer import SqlRunTransfer
from runyard.stores.runs import SqlRunStore
from runyard.stores.trials import SqlTrialStore


@dataclass(frozen=True)
class Stores:
    """Every store of one database."""

    database: Database
    runs: RunStore
    metrics: MetricStore
    files: FileStore
    assets: AssetStore
    nodes: NodeStore
    parts: PartStore
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
    recent = RecentRuns()
    return Stores(
        database,
        SqlRunStore(database, recent),
        SqlMetricStore(database, recent),
        SqlFileStore(database),
        SqlAssetStore(database),
        SqlNodeStore(database),
        SqlPartStore(database),
        SqlLineageStore(database),
        SqlTrialStore(database),
        SqlRunTransfer(database),
    )
