import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from runyard.model.web_services import ServiceTrouble, ServingLimits
from runyard.serving.dispatch import Dispatcher
from runyard.serving.worker_link import WorkerFacts
from runyard.serving.workers.process import WorkerFailed, WorkerProcess

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_STABLE_SECONDS = 60.0
_EXIT_SECONDS = 5.0
_REDEPLOY_HINT = "Deploy again, so that its files and its environment are made anew."

MakeWorker = Callable[[], WorkerProcess]


class ReplicaOwner(Protocol):
    """Owner of a replica; called at each of its changes."""

    limits: ServingLimits

    def replica_changed(self, trouble: ServiceTrouble | None) -> None: ...


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
        raise WorkerFailed(ServiceTrouble(problem, hint, "init", "", worker.last_lines())) from None


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
            trouble = await self._run_worker()
            if self._is_stopping:
                return
            self.is_ready, self.worker = False, None
            self.restarts += 1
            lived = asyncio.get_running_loop().time() - started_at
            self._pause = 0.0 if lived > _STABLE_SECONDS else self._pause
            self._owner.replica_changed(trouble)
            await asyncio.sleep(self._pause)
            self._pause = min(_LONGEST_PAUSE_SECONDS, self._pause * 2 or _FIRST_PAUSE_SECONDS)

    async def _run_worker(self) -> ServiceTrouble:
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
        except WorkerFailed as failure:
            return failure.trouble
        except OSError as error:
            return _not_started(error)
        except Exception as error:  # any failure is published, and the start is retried
            problem = f"A worker could not be started: {type(error).__name__}: {error}."
            return ServiceTrouble(problem, _REDEPLOY_HINT, "init")
        return ServiceTrouble(cause, "Another worker is being started.", "running", "", self.worker.last_lines())


def _not_started(error: OSError) -> ServiceTrouble:
    return ServiceTrouble(
        f"A worker could not be started: {error.strerror or error}.",
        _REDEPLOY_HINT,
        "init",
    )
