import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from runyard.blobs.files import FileBlobStore
from runyard.blobs.logs import FileLogStore
from runyard.compute.local.gpus import find_gpus
from runyard.lifecycle.home import require_no_content
from runyard.planning.gpus import Gpu
from runyard.ports.blobs import BlobStore, LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.runs.attempt_fence import AttemptFence
from runyard.runs.history.notifier import Notifier
from runyard.runs.history.notifying import NotifyingLogStore, NotifyingRunStore
from runyard.services.access import Access
from runyard.services.callers_blobs import CallersBlobs
from runyard.services.tokens import Tokens
from runyard.settings import Settings
from runyard.stores.database import Database
from runyard.stores.sql import Stores, open_stores


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class Foundation:
    """Stores, files, tokens and clock of one home: what use cases and controller share."""

    settings: Settings
    stores: Stores
    runs: RunStore
    logs: LogStore
    blobs: BlobStore
    callers_blobs: CallersBlobs
    tokens: Tokens
    fence: AttemptFence
    access: Access
    notifier: Notifier
    clock: Clock
    gpus: tuple[Gpu, ...]


def lay_foundation(
    settings: Settings, owner_token: str, hold: Callable[[Database], None] = lambda database: None
) -> Foundation:
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
    return Foundation(
        settings=settings,
        stores=stores,
        runs=NotifyingRunStore(stores.runs, notifier, fence),
        logs=NotifyingLogStore(FileLogStore(home / "logs"), notifier),
        blobs=blobs,
        callers_blobs=CallersBlobs(blobs, stores.runs, stores.files, stores.assets, access),
        tokens=Tokens(owner_token),
        fence=fence,
        access=access,
        notifier=notifier,
        clock=SystemClock(),
        gpus=find_gpus(),
    )
