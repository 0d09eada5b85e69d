import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from runyard.core.records.web_services import ObservedService, ServiceFailure, ServiceSpec, ServiceState
from runyard.serving.gateway.deployment import DeploymentFailed, failing_at, in_thread
from runyard.serving.gateway.dispatch import Dispatcher, Splitter
from runyard.serving.gateway.hosted_service import HostedService
from runyard.serving.gateway.http.server import PortServer
from runyard.serving.gateway.observation import ServiceObservation
from runyard.serving.gateway.port import ServicePort
from runyard.serving.gateway.replicas import ReplicaSet
from runyard.serving.service_folder import ServiceFolder
from runyard.serving.service_log import ServiceLog
from runyard.serving.workers.process import WorkerProcess

_REMOVAL_DRAIN_SECONDS, _EXIT_DRAIN_SECONDS = 1.0, 5.0
FindVersion = Callable[[str], HostedService | None]


class HostedEndpoint:
    """One endpoint in the gateway: a port whose requests are split among its versions, each a HostedService.

    Its published state combines the states of its versions.
    """

    active: ReplicaSet | None = None
    """Always None: it has no workers of its own."""

    def __init__(self, folder: ServiceFolder, find: FindVersion) -> None:
        """Raises NotFound or InvalidArgument for a folder without a readable spec."""
        self.spec = folder.spec()
        self.folder, self._find = folder, find
        self.log = ServiceLog(folder.log)
        self.observation = ServiceObservation(folder)
        self.dispatcher = Splitter(self.spec, self._dispatcher_of)
        self._port = ServicePort(folder.home, self.dispatcher, self.log.write_line)
        self._closing: set[asyncio.Task[None]] = set()
        self._failure: ServiceFailure | None = None
        self._is_closing = False

    async def resume(self) -> None:
        """Start, or continue after an earlier gateway."""
        await self.ensure_port()

    async def apply(self) -> None:
        """Read the spec again and apply it. The same or an older generation changes nothing."""
        spec = self.folder.spec()
        if spec.generation <= self.spec.generation:
            return
        if spec.versions != self.spec.versions:
            self.log.write_line(f"Requests go to {_shares_text(spec)}.")
        self.spec = spec
        self.dispatcher.reconfigure(spec)
        await self.ensure_port()

    async def remove(self) -> None:
        """Close the port and delete the folder. The caller removes the versions."""
        self.publish(state=ServiceState.DELETING)
        await self._shut_down(_REMOVAL_DRAIN_SECONDS, "The web service was deleted.")
        await in_thread(self.folder.delete)

    async def close(self) -> None:
        await self._shut_down(_EXIT_DRAIN_SECONDS, "The gateway is leaving.")

    async def metrics(self) -> dict[str, Any]:
        """Totals of all versions, and the metrics of each by its name."""
        totals = self.dispatcher.metrics()
        replicas = [one for version in self._versions() for one in (await version.metrics())["replicas"]]
        return {**totals, "replicas": replicas}

    def figures(self) -> dict[str, Any]:
        """Totals of all versions for a metrics scrape."""
        states: Counter[str] = Counter()
        for version in self._versions():
            states.update(version.figures()["replicas"])
        return {**self.dispatcher.figures(), "replicas": dict(states)}

    def workers(self) -> list[WorkerProcess]:
        return []

    def has(self, version_id: str) -> bool:
        return any(version.service_id == version_id for version in self.spec.versions)

    async def ensure_port(self) -> None:
        """Open or reconfigure the port as the spec asks; a failure is published."""
        if self._is_closing:
            return
        try:
            with failing_at("port"):
                await self._port.reconfigure(lambda: self.spec)
                await self._port.open(lambda: self.spec, self.observation.now.port)
                self._close_soon(self._port.move())
            self._failure = None
        except DeploymentFailed as error:
            self._failure = error.failure
        self.publish()

    def publish(self, **fields: Any) -> None:
        """Write the combined state of all versions, with `fields` overridden, and update the health of the port."""
        versions = [version.observation.now for version in self._versions()]
        state = self._state(versions)
        number = self.spec.revision
        shown: dict[str, Any] = {
            "generation": self.spec.generation,
            "revision": number if self._port.is_open else 0,
            "failed_revision": 0 if self._port.is_open else number,
            "state": state,
            "step": next((one.step for one in versions if one.step), ""),
            "trouble": self._failure or next((one.trouble for one in versions if one.trouble), None),
            "port": self._port.number or self.observation.now.port,
            "replicas": sum(one.replicas for one in versions),
            "wanted_replicas": sum(one.wanted_replicas for one in versions),
        }
        self.observation.change(**{**shown, **fields})
        is_starting = state is ServiceState.TRANSITIONING and not self.dispatcher.is_served
        self._port.set_health(ServiceState.TRANSITIONING if is_starting else ServiceState.HEALTHY, "")

    def _state(self, versions: list[ObservedService]) -> ServiceState:
        if not self._port.is_open:
            return ServiceState.UNHEALTHY
        if len(versions) < len(self.spec.versions) or any(one.step for one in versions):
            return ServiceState.TRANSITIONING
        return ServiceState.HEALTHY if self.dispatcher.is_served else ServiceState.UNHEALTHY

    def _versions(self) -> list[HostedService]:
        found = [self._find(version.service_id) for version in self.spec.versions]
        return [version for version in found if version is not None]

    def _dispatcher_of(self, service_id: str) -> Dispatcher | None:
        version = self._find(service_id)
        return version.dispatcher if version is not None else None

    def _close_soon(self, endpoint: PortServer | None) -> None:
        if endpoint is not None:
            task = asyncio.get_running_loop().create_task(endpoint.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _shut_down(self, drain_seconds: float, why: str) -> None:
        self._is_closing = True
        self.dispatcher.close(why)
        await self._port.close(drain_seconds)
        if self._closing:
            await asyncio.wait(self._closing, timeout=drain_seconds)
        self.log.close()


def _shares_text(spec: ServiceSpec) -> str:
    return ", ".join(f"{version.name!r} ({version.share} %)" for version in spec.versions)
