import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from runyard.core.records.web_services import ServiceFailure, ServingLimits
from runyard.serving.gateway.dispatch import Dispatcher
from runyard.serving.revision import Revision
from runyard.serving.service_folder import ServiceFolder
from runyard.serving.service_log import ServiceLog
from runyard.serving.workers.link import WorkerFacts
from runyard.serving.workers.process import WorkerFailed, WorkerProcess

DRAIN_SECONDS = 60.0
Changed = Callable[[ServiceFailure | None], None]

MakeWorker = Callable[[], WorkerProcess]


class ReplicaOwner(Protocol):
    """Owner of a replica; called at each of its changes."""

    limits: ServingLimits

    def replica_changed(self, failure: ServiceFailure | None) -> None: ...


class Replica:
    """Keeps one worker running: when it ends, another is started, with growing pauses.

    While a dispatcher is set, ready workers join it.
    """

    def __init__(self, make: MakeWorker, owner: ReplicaOwner, worker: WorkerProcess | None = None) -> None:
        self._make, self._owner, self.worker = make, owner, worker
        self.dispatcher: Dispatcher | None = None
        self.is_ready = worker is not None
        self.restarts = 0
        self._pause = 0.0
        self._is_stopping = False
        self._task = asyncio.get_running_loop().create_task(self._keep_running())

    @property
    def state(self) -> str:
        if self._is_stopping:
            return "ending"
        return "ready" if self.is_ready else "starting"

    def join(self, dispatcher: Dispatcher) -> None:
        """Let its worker answer requests of that dispatcher."""
        self.dispatcher = dispatcher
        if self.is_ready and self.worker is not None:
            dispatcher.join(self.worker.link)

    def retire(self) -> None:
        """Send no new requests to its worker."""
        if self.dispatcher is not None and self.is_ready and self.worker is not None:
            self.dispatcher.retire(self.worker.link)
        else:
            self.dispatcher = None  # a worker that becomes ready later must not join

    async def stop(self, drain_seconds: float) -> None:
        """Answer accepted requests, then end. Returns when no process is left."""
        self._is_stopping = True
        worker = self.worker
        if worker is not None:
            if self.dispatcher is not None and self.is_ready:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(drain_seconds):
                        await self.dispatcher.retire(worker.link)
            await worker.finish(_EXIT_SECONDS if self.is_ready else 0)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _keep_running(self) -> None:
        while not self._is_stopping:
            started_at = asyncio.get_running_loop().time()
            failure = await self._run_worker()
            if self._is_stopping:
                return
            self.is_ready, self.worker = False, None
            self.restarts += 1
            lived = asyncio.get_running_loop().time() - started_at
            self._pause = 0.0 if lived > _STABLE_SECONDS else self._pause
            self._owner.replica_changed(failure)
            await asyncio.sleep(self._pause)
            self._pause = min(_LONGEST_PAUSE_SECONDS, self._pause * 2 or _FIRST_PAUSE_SECONDS)

    async def _run_worker(self) -> ServiceFailure:
        """Start a worker unless there is one, wait for its end, and return the cause."""
        try:
            if self.worker is None:
                self.worker = self._make()
                self.worker.start()
                await become_ready(self.worker, self._owner.limits.init_seconds)
                self.is_ready = True
                if self.dispatcher is not None:
                    self.dispatcher.join(self.worker.link)
                self._owner.replica_changed(None)
            cause = await asyncio.shield(self.worker.died)
        except WorkerFailed as error:
            return error.failure
        except OSError as error:
            return _not_started(error)
        except Exception as error:  # any failure is published, and the start is retried
            problem = f"A worker could not be started: {type(error).__name__}: {error}."
            return ServiceFailure(problem, _REDEPLOY_HINT, "init")
        return ServiceFailure(cause, "Another worker is being started.", "running", "", self.worker.last_lines())


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

    def replica_changed(self, failure: ServiceFailure | None) -> None:
        ready = [replica.worker for replica in self._replicas if replica.is_ready and replica.worker is not None]
        if ready:
            self.facts = ready[-1].link.facts
        self._update.set()
        self.changed(failure)

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


_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_STABLE_SECONDS = 60.0
_EXIT_SECONDS = 5.0
_REDEPLOY_HINT = "Deploy again, so that its files and its environment are made anew."


async def first_start(worker: WorkerProcess, init_seconds: float) -> None:
    """Start it and wait until it is ready. Raises WorkerFailed after all its processes have ended."""
    try:
        worker.start()
    except OSError as error:
        raise WorkerFailed(_not_started(error)) from error
    try:
        await become_ready(worker, init_seconds)
    except BaseException:
        await worker.finish(0)
        raise


async def become_ready(worker: WorkerProcess, init_seconds: float) -> WorkerFacts:
    """Wait for its facts. Raises WorkerFailed when init() fails or does not end in time."""
    try:
        async with asyncio.timeout(init_seconds):
            return await asyncio.shield(worker.ready)
    except TimeoutError:
        problem = f"init() did not end within {init_seconds:.0f} s."
        await worker.kill_with_stack(problem)
        hint = "Its stack is in the log. Load less in init(), or look for what it waits for."
        raise WorkerFailed(ServiceFailure(problem, hint, "init", "", worker.last_lines())) from None


def _not_started(error: OSError) -> ServiceFailure:
    return ServiceFailure(
        f"A worker could not be started: {error.strerror or error}.",
        _REDEPLOY_HINT,
        "init",
    )
