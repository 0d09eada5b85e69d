import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from runyard.core.records.web_services import ServiceFailure, ServiceSpec, ServiceState
from runyard.serving.gateway.deployment import DeploymentFailed, failing_at, hold_environment, in_thread, prepare
from runyard.serving.gateway.dispatch import Dispatcher
from runyard.serving.gateway.http.server import PortServer
from runyard.serving.gateway.observation import ServiceObservation
from runyard.serving.gateway.port import NoPort, ServicePort
from runyard.serving.gateway.replicas import DRAIN_SECONDS, ReplicaSet
from runyard.serving.revision import Revision, as_served, find_revision
from runyard.serving.service_folder import ServiceFolder
from runyard.serving.service_log import ServiceLog
from runyard.serving.workers.process import WorkerFailed, WorkerProcess
from runyard.serving.workers.process_tree import kill_service_trees

_REMOVAL_DRAIN_SECONDS, _EXIT_DRAIN_SECONDS, _VERSION_DRAIN_SECONDS = 1.0, 5.0, 5.0
_POLL_SECONDS = 0.02


class HostedService:
    """One web service in the gateway: deploys the revision that its spec names and publishes the progress.

    A revision answers until the next one is ready. A revision that fails leaves the older one as it was. Keys, limits,
    bounds of scale and certificate are not of a revision: those of the newest spec always apply.
    """

    def __init__(self, folder: ServiceFolder, sdk: Path, *, published: Callable[[], None] = lambda: None) -> None:
        """`published` is called after each publication. Raises NotFound or InvalidArgument for a folder without a
        readable spec."""
        self.spec = folder.spec()
        self.folder, self._sdk, self._published = folder, sdk, published
        self.log = ServiceLog(folder.log)
        self.observation = ServiceObservation(folder)
        self.dispatcher = Dispatcher(self.spec.limits)
        self.active: ReplicaSet | None = None
        """The revision that answers; None before the first is ready."""
        self._next: ReplicaSet | None = None
        """The revision that is being deployed."""
        self._held = ExitStack()
        self._files = asyncio.Lock()
        """Held while files of a revision are staged or removed."""
        self._port: ServicePort | NoPort = (
            NoPort(self.dispatcher)
            if self.spec.is_version
            else ServicePort(folder.home, self.dispatcher, self.log.write_line)
        )
        self._may_move = True
        """Whether the port may change to the one of the spec; not before the spec's revision is ready."""
        self._deploying: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._failure: ServiceFailure | None = None
        self._outage: ServiceFailure | None = None
        self._is_closing = False

    async def resume(self) -> None:
        """Start, or continue after an earlier gateway: the revision that answered then answers again."""
        await in_thread(kill_service_trees, self.folder.home, self.folder.id)
        seen = self.observation.now
        revision = find_revision(self.folder, seen.revision) if seen.revision else None
        self._may_move = seen.revision == self.spec.revision
        if revision is not None:
            await self._revive(revision)
        if seen.failed_revision == self.spec.revision and (self.active is not None or not seen.revision):
            self._failure = seen.trouble
            self.publish(failed_revision=seen.failed_revision)
        elif self.active is None or self.active.revision.number != self.spec.revision:
            self._start_deployment()

    async def apply(self) -> None:
        """Read the spec again and apply it. The same or an older generation changes nothing."""
        spec = self.folder.spec()
        if spec.generation <= self.spec.generation:
            return
        seen, self.spec = self.spec, spec
        self._may_move = True
        if spec.revision != seen.revision:
            self._start_deployment()
        await self._reconfigure()

    async def remove(self) -> None:
        """Close the port, end all processes and delete the folder."""
        self.publish(state=ServiceState.DELETING)
        if self.spec.is_version:
            await self._drain_queue()
        await self._shut_down(_REMOVAL_DRAIN_SECONDS, "The web service was deleted.")
        await in_thread(kill_service_trees, self.folder.home, self.folder.id)
        await in_thread(self.folder.delete)

    async def close(self) -> None:
        """Stop because the gateway exits: answer accepted requests, end the workers, keep the folder."""
        await self._shut_down(_EXIT_DRAIN_SECONDS, "The gateway is leaving.")

    async def metrics(self) -> dict[str, Any]:
        replicas = await in_thread(self.active.metrics) if self.active else []
        return {**self.dispatcher.metrics(), "replicas": replicas}

    def figures(self) -> dict[str, Any]:
        return {**self.dispatcher.figures(), "replicas": self.active.states() if self.active else {}}

    def workers(self) -> list[WorkerProcess]:
        """All with a running process, including those of the revision that is being deployed."""
        return [worker for replicas in (self.active, self._next) if replicas for worker in replicas.workers()]

    @property
    def is_deploying(self) -> bool:
        return self._deploying is not None and not self._deploying.done()

    async def ensure_port(self) -> None:
        """Open or reconfigure the port as the spec asks; a failure is published as an outage."""
        if self._is_closing:
            return
        try:
            with failing_at("port"):
                await self._port.reconfigure(self._spec_of_port)
                if self.active is not None and not self.is_deploying:
                    await self._port.open(self._spec_of_port, self.observation.now.port)
                    self._retire_soon(None, ExitStack(), self._port.move())
            if self._outage is not None and self._outage.step == "port":
                self._outage = None
        except DeploymentFailed as error:
            self._outage = error.failure
        self.publish()

    def publish(self, **fields: Any) -> None:
        """Write the current state, with `fields` overridden, and update the health of the port."""
        active, port = self.active, self._port.number
        facts = active.facts if active else None
        state: dict[str, Any] = {
            "generation": self.spec.generation,
            "revision": active.revision.number if active else 0,
            "state": self._state(),
            "step": self.observation.now.step if self.is_deploying else "",
            "trouble": self._outage or self._failure,
            "port": port or self.observation.now.port,
            "replicas": active.ready if active and self._port.is_open else 0,
            "wanted_replicas": active.wanted if active else self.spec.scale.least,
            "notes": facts.notes if facts else (),
            "schema": facts.schema if facts else {},
        }
        self.observation.change(**{**state, **fields})
        self._port.set_health(*self._health())
        self._published()

    def _state(self) -> ServiceState:
        if self.is_deploying:
            return ServiceState.TRANSITIONING
        if self.active is None:
            return ServiceState.FAILED
        return ServiceState.HEALTHY if self.active.ready and self._port.is_open else ServiceState.UNHEALTHY

    def _health(self) -> tuple[ServiceState, str]:
        """State and problem that requests get: they wait for a worker that is being replaced, not for one that fails
        to start."""
        if self.active is None:
            return ServiceState.TRANSITIONING, f"Web service {self.spec.name!r} is being deployed."
        if self._outage is not None and self._outage.step != "running":
            return ServiceState.UNHEALTHY, self._outage.problem
        return ServiceState.HEALTHY, ""

    def _start_deployment(self) -> None:
        """Deploy the revision of the spec; a deployment in progress is cancelled."""
        earlier, self._deploying = self._deploying, None
        self._failure, self._may_move = None, True
        self._deploying = asyncio.get_running_loop().create_task(self._deploy(earlier, self.spec))
        self._publish_step("files")

    async def _deploy(self, earlier: asyncio.Task[None] | None, spec: ServiceSpec) -> None:
        if earlier is not None:
            earlier.cancel()
            await asyncio.wait({earlier})
        try:
            await self._deploy_revision(spec)
        except (DeploymentFailed, WorkerFailed) as error:
            await self._fail(spec, error.failure)
        except Exception as error:  # a bug must end the deployment too: callers wait for its result
            problem = f"The gateway failed: {type(error).__name__}: {error}."
            await self._fail(spec, ServiceFailure(problem, "See gateway.log in the home folder.", "running"))
            raise

    async def _deploy_revision(self, spec: ServiceSpec) -> None:
        """Deploy the revision of `spec`. All other settings come from `self.spec`, which may be newer."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._port.cancel_move)
            with failing_at("port"):
                await self._port.open(self._spec_of_port, self.observation.now.port)
            async with self._files:
                revision = await prepare(self.folder, spec, self.log, self._publish_step)
            held = await hold_environment(self.folder.home, revision)
            undo.callback(held.close)
            self._publish_step("init")
            fresh = self._next = self._replica_set(revision)
            undo.push_async_callback(self._discard, fresh)
            await fresh.preflight()
            await self._match_size(fresh)
            with failing_at("port"):
                await self._port.reconfigure(lambda: as_served(self.spec, revision))
            undo.pop_all()
        self._swap(fresh, held)
        await self._reconfigure()

    async def _match_size(self, fresh: ReplicaSet) -> None:
        """Start as many new workers as answer now, before the old ones end."""
        before, scale = self.active.ready if self.active else 0, self.spec.scale
        fresh.resize(max(scale.least, min(before, scale.most)))
        await fresh.wait_for(min(before, fresh.wanted), self.spec.limits.init_seconds)

    async def _discard(self, fresh: ReplicaSet) -> None:
        self._next = None
        await fresh.stop(drain_seconds=0)

    def _swap(self, fresh: ReplicaSet, held: ExitStack) -> None:
        """Let the new revision answer; the old one finishes its accepted requests and ends."""
        old, old_held = self.active, self._held
        self.active, self._next, self._held, self._outage = fresh, None, held, None
        self._end_deployment()
        fresh.join(self.dispatcher)
        if old is not None:
            old.retire()
        self._retire_soon(old, old_held, self._port.move())
        where = f" on port {self._port.number}" if self._port.number else ""
        self.log.write_line(f"Revision {fresh.revision.number} answers{where}.")
        self.publish()

    def _end_deployment(self) -> None:
        """Mark the running deployment as ended, unless a newer one has replaced it."""
        if self._deploying is asyncio.current_task():
            self._deploying = None

    def _retire_soon(self, old: ReplicaSet | None, held: ExitStack, endpoint: PortServer | None) -> None:
        if old is not None or endpoint is not None:
            task = asyncio.get_running_loop().create_task(self._retire(old, held, endpoint))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    async def _retire(self, old: ReplicaSet | None, held: ExitStack, endpoint: PortServer | None) -> None:
        async with asyncio.TaskGroup() as leaving:
            if endpoint is not None:
                leaving.create_task(endpoint.close(DRAIN_SECONDS))
            if old is not None:
                leaving.create_task(old.stop())
        held.close()
        await self._tidy()

    async def _fail(self, spec: ServiceSpec, failure: ServiceFailure) -> None:
        self._failure, self._may_move = failure, False
        self._end_deployment()
        # Only the first line: builds and tracebacks have written the rest to the log already.
        first, _, _ = failure.problem.partition("\n")
        self.log.write_line(f"Revision {spec.revision} failed at step {failure.step!r}: {first} {failure.hint}")
        if self.active is None:
            await self._port.close(0)
        self.publish(failed_revision=spec.revision)
        await self._tidy()

    async def _tidy(self) -> None:
        """Delete files of revisions that do not answer, unless one is being staged."""
        async with self._files:
            if self.is_deploying:
                return
            await in_thread(self.folder.delete_revisions_but, {self.active.revision.number if self.active else 0})

    async def _revive(self, revision: Revision) -> None:
        try:
            self._held = await hold_environment(self.folder.home, revision)
        except DeploymentFailed:
            return  # its environment was pruned: a deployment builds it again
        self.active = self._replica_set(revision)
        self._outage = ServiceFailure("The gateway was started again; its workers are starting.", "", "running")
        self.active.join(self.dispatcher)
        self.active.resize(self.spec.scale.least)
        await self.ensure_port()

    async def _reconfigure(self) -> None:
        """Apply keys, limits, bounds of scale and port without new workers."""
        self.dispatcher.reconfigure(self.spec.limits)
        for replicas in (self.active, self._next):
            if replicas is not None:
                replicas.limits = self.spec.limits
        if self.active is not None:
            self.active.resize(max(self.spec.scale.least, min(self.active.wanted, self.spec.scale.most)))
        await self.ensure_port()

    def _spec_of_port(self) -> ServiceSpec:
        """Newest spec, with the fields of a revision taken from the one that answers."""
        spec = self.spec if self._may_move else replace(self.spec, port=0)
        return as_served(spec, self.active.revision) if self.active else spec

    def _replica_set(self, revision: Revision) -> ReplicaSet:
        found = ReplicaSet(self.folder, revision, self.log, self._sdk, limits=self.spec.limits, changed=lambda _: None)
        found.changed = lambda failure: self._replicas_changed(found, failure)
        return found

    def _replicas_changed(self, replicas: ReplicaSet, failure: ServiceFailure | None) -> None:
        if replicas is self.active and not self._is_closing:
            if self._outage is None or self._outage.step != "port":
                self._outage = None if replicas.ready else failure or self._outage
            self.publish()

    def _publish_step(self, step: str) -> None:
        self.publish(step=step)

    async def _drain_queue(self) -> None:
        """Wait until queued requests are answered, at most _VERSION_DRAIN_SECONDS. The endpoint sends no more."""
        ends_at = asyncio.get_running_loop().time() + _VERSION_DRAIN_SECONDS
        while self.dispatcher.depth and self.dispatcher.is_served and asyncio.get_running_loop().time() < ends_at:
            await asyncio.sleep(_POLL_SECONDS)

    async def _shut_down(self, drain_seconds: float, why: str) -> None:
        self._is_closing = True
        if self._deploying is not None:
            self._deploying.cancel()
            await asyncio.wait({self._deploying})
        self.dispatcher.close(why)
        await self._port.close(drain_seconds)
        if self.active is not None:
            await self.active.stop(drain_seconds=drain_seconds)
        if self._retiring:
            _, late = await asyncio.wait(self._retiring, timeout=drain_seconds)
            for task in late:
                task.cancel()
        self._held.close()
        self.log.close()
