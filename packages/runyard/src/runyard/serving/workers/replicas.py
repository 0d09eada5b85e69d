import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from runyard.model.web_services import ServiceTrouble, ServingLimits
from runyard.serving.dispatch import Dispatcher
from runyard.serving.folder import ServiceFolder
from runyard.serving.log_file import ServiceLog
from runyard.serving.revision import Revision
from runyard.serving.worker_link import WorkerFacts
from runyard.serving.workers.process import WorkerProcess
from runyard.serving.workers.replica import Replica, first_start

DRAIN_SECONDS = 60.0
Changed = Callable[[ServiceTrouble | None], None]


class ReplicaSet:
    """Workers of one revision. `changed` is called when one becomes ready or is lost."""

    def __init__(
        self,
        folder: ServiceFolder,
        revision: Revision,
        log: ServiceLog,
        sdk: Path,
        *,
        limits: ServingLimits,
        changed: Changed,
    ) -> None:
        self.revision, self.limits, self.changed = revision, limits, changed
        self._folder, self._log, self._sdk = folder, log, sdk
        self._first: WorkerProcess | None = None
        self._replicas: list[Replica] = []
        self._stopping: set[asyncio.Task[None]] = set()
        self._dispatcher: Dispatcher | None = None
        self._update = asyncio.Event()
        self.facts: WorkerFacts | None = None
        """Facts of the worker that became ready last."""

    @property
    def wanted(self) -> int:
        return len(self._replicas)

    @property
    def ready(self) -> int:
        return sum(replica.is_ready for replica in self._replicas)

    async def preflight(self) -> None:
        """Start the first worker and wait for its init(). Raises WorkerFailed after all its processes have ended."""
        worker = self._first = self._make()
        try:
            await first_start(worker, self.limits.init_seconds)
        finally:
            self._first = None
        self.facts = worker.link.facts
        self._replicas.append(Replica(self._make, self, worker))

    def resize(self, count: int) -> None:
        """Start more workers, or end surplus ones after they have answered what they have."""
        while len(self._replicas) < count:
            replica = Replica(self._make, self)
            if self._dispatcher is not None:
                replica.join(self._dispatcher)
            self._replicas.append(replica)
        surplus, self._replicas = self._replicas[count:], self._replicas[:count]
        self._stop_soon(surplus, DRAIN_SECONDS)

    async def wait_for(self, count: int, seconds: float) -> None:
        """Wait until so many are ready, one is lost, or the time is over."""
        restarts = sum(replica.restarts for replica in self._replicas)
        deadline = asyncio.get_running_loop().time() + seconds
        while self.ready < count and sum(replica.restarts for replica in self._replicas) == restarts:
            self._update.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._update.wait()
            except TimeoutError:
                return

    def join(self, dispatcher: Dispatcher) -> None:
        """Let the workers answer requests of this dispatcher."""
        self._dispatcher = dispatcher
        for replica in self._replicas:
            replica.join(dispatcher)

    def retire(self) -> None:
        """Send no new requests to them; call `stop` next."""
        for replica in self._replicas:
            replica.retire()

    async def stop(self, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Answer accepted requests, then end. Returns when no process is left."""
        stopped, self._replicas = self._replicas, []
        self._stop_soon(stopped, drain_seconds)
        while self._stopping:
            await asyncio.wait(set(self._stopping))

    def replica_changed(self, trouble: ServiceTrouble | None) -> None:
        ready = [replica.worker for replica in self._replicas if replica.is_ready and replica.worker is not None]
        if ready:
            self.facts = ready[-1].link.facts
        self._update.set()
        self.changed(trouble)

    def workers(self) -> list[WorkerProcess]:
        """Workers that have a process."""
        found = [self._first, *(replica.worker for replica in self._replicas)]
        return [worker for worker in found if worker is not None and worker.pid]

    def states(self) -> dict[str, int]:
        """Number of replicas by state."""
        return dict(Counter(replica.state for replica in self._replicas))

    def metrics(self) -> list[dict[str, object]]:
        return [
            {**replica.worker.usage(), "state": replica.state, "restarts": replica.restarts}
            for replica in self._replicas
            if replica.worker is not None and replica.worker.pid
        ]

    def _make(self) -> WorkerProcess:
        return WorkerProcess(self._folder, self.revision, self._log, self._sdk)

    def _stop_soon(self, replicas: list[Replica], drain_seconds: float) -> None:
        for replica in replicas:
            task = asyncio.get_running_loop().create_task(replica.stop(drain_seconds))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
