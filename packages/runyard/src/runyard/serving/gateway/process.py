"""Gateway process: owns the ports of all web services of one home folder and outlives the Runyard service.

Start it with `python -m runyard.serving.gateway HOME [READY_FD]`.
"""

import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import uvloop

from runyard.core.durable_files import replace_file
from runyard.core.errors import InvalidArgument, Json, NotFound
from runyard.core.heap import share_heap
from runyard.core.record_json import to_json
from runyard.core.umask import keep_files_private
from runyard.node.sdk_folder import ensure_sdk_folder
from runyard.process_logs import configure_logging
from runyard.process_logs.output import keep_tail
from runyard.serving.gateway.control import start_control_server
from runyard.serving.gateway.hosted_endpoint import HostedEndpoint
from runyard.serving.gateway.hosted_service import HostedService
from runyard.serving.gateway.identity import (
    ANOTHER_GATEWAY,
    GATEWAY_FACTS,
    GATEWAY_LOCK,
    GATEWAY_SOCKET,
    gateway_version,
)
from runyard.serving.gateway.monitor import ServiceMonitor
from runyard.serving.gateway.parent import restart_when_killed
from runyard.serving.service_folder import ServiceFolder, finish_deletions, service_folders
from runyard.serving.workers.descriptor_limit import raise_descriptor_limit
from runyard.serving.workers.process_tree import kill_service_trees

_IDLE_SECONDS = 5.0
_CHECK_SECONDS = 1.0
_COLLECT_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 60.0
_THREADS = 64
"""Environment builds and large copies block threads for long; the rest needs free ones."""
log = logging.getLogger(__name__)


def main(home: Path, ready_fd: int | None) -> int:
    """Serve until asked to exit, or until there has been no web service for some seconds.

    This process is the parent: it forks the gateway and restarts it when it is killed. Returns ANOTHER_GATEWAY when the
    home has a gateway already.
    """
    keep_files_private()
    share_heap()
    lock = os.open(home / GATEWAY_LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ANOTHER_GATEWAY
    version = gateway_version()  # of the loaded code: a restarted child runs it too, whatever is installed by then

    def serve(ready_fd: int | None) -> int:
        configure_logging("gateway", home)
        raise_descriptor_limit()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(Gateway(home, version, ready_fd).serve())
        return 0

    gc.collect()
    gc.freeze()
    return restart_when_killed(serve, ready_fd, is_wanted=lambda: (home / GATEWAY_LOCK).exists())


class Gateway:
    def __init__(self, home: Path, version: str, ready_fd: int | None = None) -> None:
        self._home, self._ready_fd, self._version = home, ready_fd, version
        self._services: dict[str, HostedService | HostedEndpoint] = {}
        self._monitors: dict[str, asyncio.Task[None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._exit_requested, self._loaded = asyncio.Event(), asyncio.Event()

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS))
        loop.add_signal_handler(signal.SIGTERM, self._exit_requested.set)
        loop.add_signal_handler(signal.SIGINT, self._exit_requested.set)
        self._sdk = await asyncio.to_thread(ensure_sdk_folder, self._home)
        server = await start_control_server(self._home, self._handle)
        self._report_ready()
        log.info("The gateway %s serves %s.", self._version, self._home)
        try:
            # Freeze what lives until the end: scanning it again in every collection would delay requests.
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 50)
            await asyncio.to_thread(finish_deletions, self._home)
            await asyncio.gather(*(self._load(folder) for folder in service_folders(self._home)))
            self._loaded.set()
            await self._run_until_unneeded()
        finally:
            server.close()
            log.info("The gateway leaves; it served %d web services.", len(self._services))
            await asyncio.gather(*(self._close(service_id) for service_id in list(self._services)))
            with contextlib.suppress(FileNotFoundError):
                (self._home / GATEWAY_SOCKET).unlink()

    def _report_ready(self) -> None:
        """Write the facts file and notify the process that waits at `ready_fd`."""
        facts = b'{"pid": %d, "version": "%s"}' % (os.getpid(), self._version.encode())
        with contextlib.suppress(OSError):  # a full disk must not stop it: answering requests needs no disk space
            replace_file(self._home / GATEWAY_FACTS, facts)
        if self._ready_fd is not None:
            with contextlib.suppress(BrokenPipeError):  # the starter was killed; the next one finds the socket
                os.write(self._ready_fd, b"1")
            os.close(self._ready_fd)

    async def _run_until_unneeded(self) -> None:
        """Return when an exit is requested, the home is deleted, or there was no web service for _IDLE_SECONDS."""
        idle_seconds, collected_at = 0.0, time.monotonic()
        while not self._exit_requested.is_set() and (self._home / GATEWAY_LOCK).exists():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._exit_requested.wait()
            with contextlib.suppress(OSError):
                keep_tail(sys.stderr.fileno())
            if time.monotonic() - collected_at >= _COLLECT_SECONDS:
                # Ended web services and workers are old reference cycles: by the thresholds they would stay for days.
                gc.collect()
                collected_at = time.monotonic()
            idle_seconds = 0.0 if self._services or service_folders(self._home) else idle_seconds + _CHECK_SECONDS
            if idle_seconds >= _IDLE_SECONDS:
                return

    async def _handle(self, op: str, request: Json) -> Json:
        """Answer one request of the control socket. Raises InvalidArgument for an unknown op."""
        if op == "status":
            services = {name: service.observation.now.state.value for name, service in self._services.items()}
            return {"pid": os.getpid(), "version": self._version, "services": services}
        if op == "figures":
            return {"services": self._figures()}
        if op == "exit":
            self._exit_requested.set()
            return {}
        folder = ServiceFolder(self._home, request["service"])
        await self._loaded.wait()  # until then the state on disk is that of the gateway before
        if op == "apply":
            await self._load(folder)
            return {}
        if op == "remove":
            await self._remove(folder)
            return {}
        service = self._services.get(folder.id)
        if op == "wait":
            if service is None:
                return {"observed": None}
            seconds = min(float(request["seconds"]), _LONGEST_WAIT_SECONDS)
            return {"observed": to_json(await service.observation.after(int(request["version"]), seconds))}
        if op == "metrics":
            return {} if service is None else await service.metrics()
        raise InvalidArgument(f"The gateway knows no op {op!r}.")

    def _figures(self) -> list[Json]:
        """Counts for a metrics scrape. A version counts with its endpoint."""
        return [
            {"workspace": service.spec.workspace, "name": service.spec.name, **service.figures()}
            for service in self._services.values()
            if not service.spec.is_version
        ]

    async def _load(self, folder: ServiceFolder) -> None:
        """Start serving a folder, apply its changed spec, or remove it when it is marked as removed."""
        if folder.is_removed():
            await self._remove(folder)
            return
        async with self._lock(folder.id):
            service = self._services.get(folder.id)
            if service is not None:
                await service.apply()
                return
            try:
                service = self._hosted(folder)
            except (NotFound, InvalidArgument, OSError) as error:
                log.error("%s: %s", folder.root, error)
                return
            self._services[folder.id] = service
            log.info("Web service %s was found and is served.", folder.id)
            self._monitors[folder.id] = asyncio.get_running_loop().create_task(ServiceMonitor(service).run())
            try:
                await service.resume()
            except Exception:  # one faulty web service must not stop the others
                log.exception("The web service %s could not be taken up.", folder.id)

    def _hosted(self, folder: ServiceFolder) -> HostedService | HostedEndpoint:
        """Raises NotFound, InvalidArgument or OSError for a folder that is not of a web service."""
        spec = folder.spec()
        if spec.versions:
            return HostedEndpoint(folder, self._find_version)
        return HostedService(folder, self._sdk, published=partial(self._publish_endpoint, folder.id))

    def _find_version(self, service_id: str) -> HostedService | None:
        found = self._services.get(service_id)
        return found if isinstance(found, HostedService) else None

    def _publish_endpoint(self, version_id: str) -> None:
        """Publish the state of the endpoint that has this version: it depends on its versions."""
        for service in self._services.values():
            if isinstance(service, HostedEndpoint) and service.has(version_id):
                service.publish()

    async def _remove(self, folder: ServiceFolder) -> None:
        folder.mark_removed()
        async with self._lock(folder.id):
            service = self._services.get(folder.id)
            if service is not None:
                self._monitors.pop(folder.id).cancel()
                await service.remove()
                del self._services[folder.id]
                log.info("Web service %s is removed.", folder.id)
            else:
                # Processes left by workers of an earlier gateway are found by the service id alone.
                await asyncio.to_thread(kill_service_trees, self._home, folder.id)
                await asyncio.to_thread(folder.delete)
        self._locks.pop(folder.id, None)

    async def _close(self, service_id: str) -> None:
        async with self._lock(service_id):
            self._monitors.pop(service_id).cancel()
            await self._services.pop(service_id).close()

    def _lock(self, service_id: str) -> asyncio.Lock:
        """Serializes the operations on one web service."""
        return self._locks.setdefault(service_id, asyncio.Lock())
