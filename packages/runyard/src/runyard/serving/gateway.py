"""The gateway: one process per home that answers for its web services, apart from the service.

`python -m runyard.serving.gateway HOME [READY_FD]`
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

from runyard.core.record_json import to_json
from runyard.environments.durable import write_beside
from runyard.errors import InvalidArgument, Json, NotFound
from runyard.heap import share_heap
from runyard.node.sdk_folder import ensure_sdk_folder
from runyard.process_logs import configure_logging
from runyard.process_logs.standard_error import keep_end
from runyard.serving.control import listen
from runyard.serving.descriptors import take_all
from runyard.serving.folder import ServiceFolder, service_folders, sweep_deleted
from runyard.serving.hosted_endpoint import HostedEndpoint
from runyard.serving.hosted_service import HostedService
from runyard.serving.names import ANOTHER_GATEWAY, GATEWAY_FACTS, GATEWAY_LOCK, GATEWAY_SOCKET
from runyard.serving.version import gateway_version
from runyard.serving.watch import Watch
from runyard.serving.watcher import watch
from runyard.serving.workers.tree import kill_service_trees
from runyard.umask import keep_files_private

_IDLE_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_COLLECT_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 60.0
_THREADS = 64
"""Builds and large copies wait in them for long, and must not keep the rest from theirs."""
log = logging.getLogger("runyard.serving.gateway")


def main(home: Path, ready_fd: int | None) -> int:
    """Serve until asked to leave, or until there has been nothing to serve for some seconds. A gateway that is killed
    meanwhile is started again by this process, its parent."""
    keep_files_private()
    share_heap()
    lock = os.open(home / GATEWAY_LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ANOTHER_GATEWAY
    version = gateway_version()  # of the code that is loaded here, whatever is installed when another one is forked

    def serve(ready_fd: int | None) -> int:
        configure_logging("gateway", home)
        take_all()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(Gateway(home, version, ready_fd).serve())
        return 0

    gc.collect()
    gc.freeze()
    return watch(serve, ready_fd, is_wanted=lambda: (home / GATEWAY_LOCK).exists())


class Gateway:
    def __init__(self, home: Path, version: str, ready_fd: int | None = None) -> None:
        self._home, self._ready_fd, self._version = home, ready_fd, version
        self._services: dict[str, HostedService | HostedEndpoint] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._leaving, self._taken_up = asyncio.Event(), asyncio.Event()

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS))
        loop.add_signal_handler(signal.SIGTERM, self._leaving.set)
        loop.add_signal_handler(signal.SIGINT, self._leaving.set)
        self._sdk = await asyncio.to_thread(ensure_sdk_folder, self._home)
        server = await listen(self._home, self._do)
        self._sign_in()
        log.info("The gateway %s serves %s.", self._version, self._home)
        try:
            # What lives until the end need not be looked at again and again: that costs requests their time.
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 50)
            await asyncio.to_thread(sweep_deleted, self._home)
            await asyncio.gather(*(self._take_up(folder) for folder in service_folders(self._home)))
            self._taken_up.set()
            await self._until_superfluous()
        finally:
            server.close()
            log.info("The gateway leaves; it served %d web services.", len(self._services))
            await asyncio.gather(*(self._drop(service_id) for service_id in list(self._services)))
            with contextlib.suppress(FileNotFoundError):
                (self._home / GATEWAY_SOCKET).unlink()

    def _sign_in(self) -> None:
        facts = b'{"pid": %d, "version": "%s"}' % (os.getpid(), self._version.encode())
        with contextlib.suppress(OSError):  # a full disk must not keep what needs no room from answering
            write_beside(self._home / GATEWAY_FACTS, facts)
        if self._ready_fd is not None:
            with contextlib.suppress(BrokenPipeError):  # who started it was killed; the next one finds it
                os.write(self._ready_fd, b"1")
            os.close(self._ready_fd)

    async def _until_superfluous(self) -> None:
        """Until it is asked to leave, its home has gone, or it has had nothing to serve for a while."""
        idle_seconds, collected_at = 0.0, time.monotonic()
        while not self._leaving.is_set() and (self._home / GATEWAY_LOCK).exists():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._leaving.wait()
            with contextlib.suppress(OSError):
                keep_end(sys.stderr.fileno())
            if time.monotonic() - collected_at >= _COLLECT_SECONDS:
                # Web services and workers that ended are cycles, old ones: by the thresholds they would stay for days.
                gc.collect()
                collected_at = time.monotonic()
            idle_seconds = 0.0 if self._services or service_folders(self._home) else idle_seconds + _LOOK_SECONDS
            if idle_seconds >= _IDLE_SECONDS:
                return

    async def _do(self, op: str, request: Json) -> Json:
        if op == "status":
            services = {name: service.observation.now.state.value for name, service in self._services.items()}
            return {"pid": os.getpid(), "version": self._version, "services": services}
        if op == "figures":
            return {"services": self._figures()}
        if op == "exit":
            self._leaving.set()
            return {}
        folder = ServiceFolder(self._home, request["service"])
        await self._taken_up.wait()  # until then its state is what an earlier gateway said
        if op == "apply":
            await self._take_up(folder)
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
        """For a scrape. A version counts with its endpoint."""
        return [
            {"workspace": service.spec.workspace, "name": service.spec.name, **service.figures()}
            for service in self._services.values()
            if not service.spec.is_version
        ]

    async def _take_up(self, folder: ServiceFolder) -> None:
        """Begin with a web service, or hear that its spec has changed; one that is to go goes."""
        if folder.is_removed():
            await self._remove(folder)
            return
        async with self._turn(folder.id):
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
            self._watches[folder.id] = asyncio.get_running_loop().create_task(Watch(service).run())
            try:
                await service.resume()
            except Exception:  # whatever is wrong with one must not keep the others from answering
                log.exception("The web service %s could not be taken up.", folder.id)

    def _hosted(self, folder: ServiceFolder) -> HostedService | HostedEndpoint:
        """Raises NotFound, InvalidArgument or OSError for a folder that is none of a web service."""
        spec = folder.spec()
        if spec.versions:
            return HostedEndpoint(folder, self._find_version)
        return HostedService(folder, self._sdk, published=partial(self._tell_endpoint, folder.id))

    def _find_version(self, service_id: str) -> HostedService | None:
        found = self._services.get(service_id)
        return found if isinstance(found, HostedService) else None

    def _tell_endpoint(self, version_id: str) -> None:
        for service in self._services.values():
            if isinstance(service, HostedEndpoint) and service.has(version_id):
                service.publish()

    async def _remove(self, folder: ServiceFolder) -> None:
        folder.mark_removed()
        async with self._turn(folder.id):
            service = self._services.get(folder.id)
            if service is not None:
                self._watches.pop(folder.id).cancel()
                await service.remove()
                del self._services[folder.id]
                log.info("Web service %s is removed.", folder.id)
            else:
                # Processes that an earlier gateway's workers left are known by the folder's name alone.
                await asyncio.to_thread(kill_service_trees, self._home, folder.id)
                await asyncio.to_thread(folder.delete)
        self._turns.pop(folder.id, None)

    async def _drop(self, service_id: str) -> None:
        async with self._turn(service_id):
            self._watches.pop(service_id).cancel()
            await self._services.pop(service_id).close()

    def _turn(self, service_id: str) -> asyncio.Lock:
        """What is asked for one web service happens one after another."""
        return self._turns.setdefault(service_id, asyncio.Lock())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
