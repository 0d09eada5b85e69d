import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from runyard.model.web_services import ServiceSpec, ServiceState, ServiceTrouble
from runyard.serving.deployment import DeploymentFailed, failing_at, hold_environment, in_thread, prepare
from runyard.serving.dispatch import Dispatcher
from runyard.serving.folder import ServiceFolder
from runyard.serving.front.endpoint import Endpoint
from runyard.serving.log_file import ServiceLog
from runyard.serving.observation import Observation
from runyard.serving.port import NoPort, ServicePort
from runyard.serving.revision import Revision, as_served, find_revision
from runyard.serving.workers.process import WorkerFailed, WorkerProcess
from runyard.serving.workers.replicas import DRAIN_SECONDS, ReplicaSet
from runyard.serving.workers.tree import kill_service_trees

_REMOVAL_DRAIN_SECONDS, _LEAVING_DRAIN_SECONDS, _VERSION_DRAIN_SECONDS = 1.0, 5.0, 5.0
_LOOK_AGAIN_SECONDS = 0.02


class HostedService:
    """One web service in the gateway: brings what answers in line with its spec, and says how far it has come.

    A revision answers until the next one is ready. One that fails leaves the older one as it was. Whatever is not of a
    revision (keys, limits, bounds of scale, certificate) is that of the newest spec at every moment.
    """

    def __init__(self, folder: ServiceFolder, sdk: Path, *, published: Callable[[], None] = lambda: None) -> None:
        """`published` is called whenever it has said how things are. Raises NotFound or InvalidArgument for a folder
        without a spec that can be read."""
        self.spec = folder.spec()
        self.folder, self._sdk, self._published = folder, sdk, published
        self.log = ServiceLog(folder.log)
        self.observation = Observation(folder)
        self.dispatcher = Dispatcher(self.spec.limits)
        self.active: ReplicaSet | None = None
        """The revision that answers; None before the first is ready."""
        self._fresh: ReplicaSet | None = None
        self._held = ExitStack()
        self._files = asyncio.Lock()
        """Held while files of a revision are laid out, or removed."""
        self._port: ServicePort | NoPort = (
            NoPort(self.dispatcher) if self.spec.is_version else ServicePort(folder.home, self.dispatcher, self.log.say)
        )
        self._may_move = True
        """Whether a port that the spec names is to be had: a revision that is not ready yet leaves it where it was."""
        self._deploying: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._failure: ServiceTrouble | None = None
        self._outage: ServiceTrouble | None = None
        self._is_leaving = False

    async def resume(self) -> None:
        """Begin, or go on where an earlier gateway ended: the revision that answered then answers again."""
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
            self._begin()

    async def apply(self) -> None:
        """Read the spec again and make it so. The same or an older one changes nothing."""
        spec = self.folder.spec()
        if spec.generation <= self.spec.generation:
            return
        seen, self.spec = self.spec, spec
        self._may_move = True
        if spec.revision != seen.revision:
            self._begin()
        await self._reconfigure()

    async def remove(self) -> None:
        """Its port no longer answers, its processes end and its folder goes."""
        self.publish(state=ServiceState.DELETING)
        if self.spec.is_version:
            await self._finish_queue()
        await self._leave(_REMOVAL_DRAIN_SECONDS, "The web service was deleted.")
        await in_thread(kill_service_trees, self.folder.home, self.folder.id)
        await in_thread(self.folder.delete)

    async def close(self) -> None:
        """The gateway leaves: what was taken is answered, the workers end, and the folder stays."""
        await self._leave(_LEAVING_DRAIN_SECONDS, "The gateway is leaving.")

    async def metrics(self) -> dict[str, Any]:
        replicas = await in_thread(self.active.metrics) if self.active else []
        return {**self.dispatcher.metrics(), "replicas": replicas}

    def figures(self) -> dict[str, Any]:
        return {**self.dispatcher.figures(), "replicas": self.active.states() if self.active else {}}

    def workers(self) -> list[WorkerProcess]:
        """All that have a process now, those of a revision that is not yet ready too."""
        return [worker for replicas in (self.active, self._fresh) if replicas for worker in replicas.workers()]

    @property
    def is_deploying(self) -> bool:
        return self._deploying is not None and not self._deploying.done()

    async def ensure_port(self) -> None:
        """Bring the port in line with the spec, as far as that is possible now."""
        if self._is_leaving:
            return
        try:
            with failing_at("port"):
                await self._port.reconfigure(self._spec_of_port)
                if self.active is not None and not self.is_deploying:
                    await self._port.open(self._spec_of_port, self.observation.now.port)
                    self._retire_soon(None, ExitStack(), self._port.move())
            if self._outage is not None and self._outage.step == "port":
                self._outage = None
        except DeploymentFailed as failure:
            self._outage = failure.trouble
        self.publish()

    def publish(self, **fields: Any) -> None:
        """Say how things are, and let the port say it."""
        active, port = self.active, self._port.number
        facts = active.facts if active else None
        said: dict[str, Any] = {
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
        self.observation.change(**{**said, **fields})
        self._port.set_health(*self._health())
        self._published()

    def _state(self) -> ServiceState:
        if self.is_deploying:
            return ServiceState.TRANSITIONING
        if self.active is None:
            return ServiceState.FAILED
        return ServiceState.HEALTHY if self.active.ready and self._port.is_open else ServiceState.UNHEALTHY

    def _health(self) -> tuple[ServiceState, str]:
        """What requests hear: they wait for a worker that is being replaced, not for one that fails to start."""
        if self.active is None:
            return ServiceState.TRANSITIONING, f"Web service {self.spec.name!r} is being deployed."
        if self._outage is not None and self._outage.step != "running":
            return ServiceState.UNHEALTHY, self._outage.problem
        return ServiceState.HEALTHY, ""

    def _begin(self) -> None:
        """Deploy what the spec asks for; a deployment that goes on is given up."""
        earlier, self._deploying = self._deploying, None
        self._failure, self._may_move = None, True
        self._deploying = asyncio.get_running_loop().create_task(self._deploy(earlier, self.spec))
        self._tell_step("files")

    async def _deploy(self, earlier: asyncio.Task[None] | None, spec: ServiceSpec) -> None:
        if earlier is not None:
            earlier.cancel()
            await asyncio.wait({earlier})
        try:
            await self._bring_up(spec)
        except (DeploymentFailed, WorkerFailed) as failure:
            await self._fail(spec, failure.trouble)
        except Exception as error:  # whatever it is, a deployment has an end, and whoever waits for it hears it
            problem = f"The gateway failed: {type(error).__name__}: {error}."
            await self._fail(spec, ServiceTrouble(problem, "See gateway.log in the home folder.", "running"))
            raise

    async def _bring_up(self, spec: ServiceSpec) -> None:
        """Only what is of the revision is taken from `spec`: all else may have changed when it is ready."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._port.stay)
            with failing_at("port"):
                await self._port.open(self._spec_of_port, self.observation.now.port)
            async with self._files:
                revision = await prepare(self.folder, spec, self.log, self._tell_step)
            held = await hold_environment(self.folder.home, revision)
            undo.callback(held.close)
            self._tell_step("init")
            fresh = self._fresh = self._replica_set(revision)
            undo.push_async_callback(self._give_up, fresh)
            await fresh.preflight()
            await self._match(fresh)
            with failing_at("port"):
                await self._port.reconfigure(lambda: as_served(self.spec, revision))
            undo.pop_all()
        self._swap(fresh, held)
        await self._reconfigure()

    async def _match(self, fresh: ReplicaSet) -> None:
        """As many new workers as answer now, before those end."""
        before, scale = self.active.ready if self.active else 0, self.spec.scale
        fresh.resize(max(scale.least, min(before, scale.most)))
        await fresh.wait_for(min(before, fresh.wanted), self.spec.limits.init_seconds)

    async def _give_up(self, fresh: ReplicaSet) -> None:
        self._fresh = None
        await fresh.stop(drain_seconds=0)

    def _swap(self, fresh: ReplicaSet, held: ExitStack) -> None:
        """From here on the new revision answers, and the old one ends with what it has taken."""
        old, old_held = self.active, self._held
        self.active, self._fresh, self._held, self._outage = fresh, None, held, None
        self._is_over()
        fresh.join(self.dispatcher)
        if old is not None:
            old.retire()
        self._retire_soon(old, old_held, self._port.move())
        where = f" on port {self._port.number}" if self._port.number else ""
        self.log.say(f"Revision {fresh.revision.number} answers{where}.")
        self.publish()

    def _is_over(self) -> None:
        """This deployment has come to its end, unless another has taken its place."""
        if self._deploying is asyncio.current_task():
            self._deploying = None

    def _retire_soon(self, old: ReplicaSet | None, held: ExitStack, endpoint: Endpoint | None) -> None:
        if old is not None or endpoint is not None:
            task = asyncio.get_running_loop().create_task(self._retire(old, held, endpoint))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    async def _retire(self, old: ReplicaSet | None, held: ExitStack, endpoint: Endpoint | None) -> None:
        async with asyncio.TaskGroup() as leaving:
            if endpoint is not None:
                leaving.create_task(endpoint.close(DRAIN_SECONDS))
            if old is not None:
                leaving.create_task(old.stop())
        held.close()
        await self._tidy()

    async def _fail(self, spec: ServiceSpec, trouble: ServiceTrouble) -> None:
        self._failure, self._may_move = trouble, False
        self._is_over()
        # What a build or a traceback has to say in full, it has said in the log itself.
        first, _, _ = trouble.problem.partition("\n")
        self.log.say(f"Revision {spec.revision} failed at step {trouble.step!r}: {first} {trouble.hint}")
        if self.active is None:
            await self._port.close(0)
        self.publish(failed_revision=spec.revision)
        await self._tidy()

    async def _tidy(self) -> None:
        """Files of revisions that do not answer go, unless one of them is just being laid out."""
        async with self._files:
            if self.is_deploying:
                return
            await in_thread(self.folder.delete_revisions_but, {self.active.revision.number if self.active else 0})

    async def _revive(self, revision: Revision) -> None:
        try:
            self._held = await hold_environment(self.folder.home, revision)
        except DeploymentFailed:
            return  # its environment has gone: the deployment makes it anew
        self.active = self._replica_set(revision)
        self._outage = ServiceTrouble("The gateway was started again; its workers are starting.", "", "running")
        self.active.join(self.dispatcher)
        self.active.resize(self.spec.scale.least)
        await self.ensure_port()

    async def _reconfigure(self) -> None:
        """Keys, limits, bounds of scale and port change under the workers that are there."""
        self.dispatcher.reconfigure(self.spec.limits)
        for replicas in (self.active, self._fresh):
            if replicas is not None:
                replicas.limits = self.spec.limits
        if self.active is not None:
            self.active.resize(max(self.spec.scale.least, min(self.active.wanted, self.spec.scale.most)))
        await self.ensure_port()

    def _spec_of_port(self) -> ServiceSpec:
        """The newest, with what is of a revision from the one that answers."""
        spec = self.spec if self._may_move else replace(self.spec, port=0)
        return as_served(spec, self.active.revision) if self.active else spec

    def _replica_set(self, revision: Revision) -> ReplicaSet:
        found = ReplicaSet(self.folder, revision, self.log, self._sdk, limits=self.spec.limits, changed=lambda _: None)
        found.changed = lambda trouble: self._replicas_changed(found, trouble)
        return found

    def _replicas_changed(self, replicas: ReplicaSet, trouble: ServiceTrouble | None) -> None:
        if replicas is self.active and not self._is_leaving:
            if self._outage is None or self._outage.step != "port":
                self._outage = None if replicas.ready else trouble or self._outage
            self.publish()

    def _tell_step(self, step: str) -> None:
        self.publish(step=step)

    async def _finish_queue(self) -> None:
        """The endpoint sends nothing more: what it has sent before is answered, if that takes no longer than this."""
        ends_at = asyncio.get_running_loop().time() + _VERSION_DRAIN_SECONDS
        while self.dispatcher.depth and self.dispatcher.is_served and asyncio.get_running_loop().time() < ends_at:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def _leave(self, drain_seconds: float, why: str) -> None:
        self._is_leaving = True
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
