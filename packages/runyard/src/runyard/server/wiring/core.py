import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from runyard.access.attempt_fence import AttemptFence
from runyard.access.authorization import Access
from runyard.access.blobs import CallerBlobs
from runyard.access.tokens import Tokens
from runyard.compute.gpus import Gpu, find_gpus
from runyard.core.ports.blobs import BlobStore, LogStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import RunStore
from runyard.core.settings import Settings
from runyard.runs.history.notifications import Notifier, NotifyingLogStore, NotifyingRunStore
from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.blobs.store import FileBlobStore
from runyard.storage.home import require_no_content
from runyard.storage.sql.database import Database
from runyard.storage.sql.stores import Stores, open_stores


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class Core:
    """Stores, files, tokens and clock of one home: what use cases and controller share."""

    settings: Settings
    stores: Stores
    runs: RunStore
    logs: LogStore
    blobs: BlobStore
    callers_blobs: CallerBlobs
    tokens: Tokens
    fence: AttemptFence
    access: Access
    notifier: Notifier
    clock: Clock
    gpus: tuple[Gpu, ...]


def open_core(settings: Settings, owner_token: str, hold: Callable[[Database], None] = lambda database: None) -> Core:
    """Open the database, migrate its tables, and call `hold` before anything is written.

    Raises SchemaTooNew, and Conflict where the home has files of runs and no database.
    """
    home, notifier = settings.home, Notifier()
    if not settings.database_url and not (home / "runyard.db").exists():
        require_no_content(home)  # opening creates the file
    stores = open_stores(settings.store_url, copies=home, check_new=lambda: require_no_content(home))
    hold(stores.database)
    fence = AttemptFence(stores.runs)
    access = Access(stores.runs, stores.assets, fence)
    blobs = FileBlobStore(home / "blobs")
    return Core(
        settings=settings,
        stores=stores,
        runs=NotifyingRunStore(stores.runs, notifier, fence),
        logs=NotifyingLogStore(FileLogStore(home / "logs"), notifier),
        blobs=blobs,
        callers_blobs=CallerBlobs(blobs, stores.runs, stores.files, stores.assets, access),
        tokens=Tokens(owner_token),
        fence=fence,
        access=access,
        notifier=notifier,
        clock=SystemClock(),
        gpus=find_gpus(),
    )
