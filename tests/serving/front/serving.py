"""The real front of a web service, in a loop of its own, before real workers."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import Scorer, ServiceSpec, ServiceState, ServiceType
from runyard.serving.gateway.dispatch import Dispatcher
from runyard.serving.gateway.http.connection_set import ClientLimits
from runyard.serving.gateway.http.server import PortServer, open_port
from runyard.serving.workers.link import InitFailure, WorkerFacts, WorkerLink

T = TypeVar("T")
PLAIN_SCRIPT = """
import json, os, signal, time

def init():
    pass

def run(text):
    order = json.loads(text) if text.startswith("{") else {}
    with open("seen", "a") as seen:
        seen.write(text[:100] + "\\n")
    if order.get("do") == "wait":
        while not os.path.exists(order["until"]):
            time.sleep(0.002)
    if order.get("do") == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if order.get("do") == "fail":
        raise ValueError("the script said no")
    if order.get("do") == "count":
        return len(text)
    return text
"""


def a_spec(**facts: Any) -> ServiceSpec:
    known: dict[str, Any] = {
        "id": "svc1",
        "workspace": "space",
        "name": "my-service",
        "type": ServiceType.ACI,
        "revision": 1,
        "generation": 1,
        "scorer": Scorer.SCRIPT,
        "models": (),
        "environment": EnvironmentSpec(),
    }
    return ServiceSpec(**{**known, **facts})


class Worker:
    """A worker process and what its supervisor would do: a hung one is killed, a lost one is told of."""

    def __init__(self, folder: Path, requests_at_once: int) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "runyard_sdk.scoring.worker", str(theirs.fileno())]
        with theirs, open(folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._socket, self._folder = ours, folder
        self._is_ready = asyncio.get_running_loop().create_future()
        self.link = WorkerLink(self, requests_at_once=requests_at_once)

    async def start(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self.link, sock=self._socket)
        root = str(self._folder)
        self.link.start(
            {
                "scorer": "script",
                "service": "my-service",
                "entry_script": "score.py",
                "app_root": root,
                "models_root": root,
                "models": [],
                "requests_at_once": self.link.requests_at_once,
            }
        )
        await self._is_ready

    def became_ready(self, facts: WorkerFacts) -> None:
        self._is_ready.set_result(None)

    def failed(self, failure: InitFailure) -> None:
        self._is_ready.set_exception(AssertionError(failure.traceback))

    def closed(self, why: str) -> None:
        self.process.wait(timeout=20)
        self.link.lost(f"It ended with {self.process.returncode}.")

    def hung(self, why: str) -> None:
        self.process.kill()


class Front:
    """Every call but `on_loop` may come from the test's thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.workers: list[Worker] = []
        self.said: list[str] = []
        """Lines for the log."""
        self.dispatcher: Dispatcher
        self.endpoint: PortServer

    @property
    def port(self) -> int:
        return self.endpoint.port

    def seen(self) -> list[str]:
        """The bodies that reached the script."""
        file = self.folder / "seen"
        return file.read_text().splitlines() if file.exists() else []

    def wait_until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            async with asyncio.timeout(20):
                while not holds():
                    await asyncio.sleep(0.002)

        self.on_loop(wait)

    def on_loop(self, call: Callable[[], Awaitable[T]]) -> T:
        return self.begin(call).result(timeout=30)

    def begin(self, call: Callable[[], Awaitable[T]]) -> "Future[T]":
        async def made() -> T:
            return await call()

        return asyncio.run_coroutine_threadsafe(made(), self._loop)

    def add_worker(self, requests_at_once: int = 1) -> None:
        async def add() -> None:
            worker = Worker(self.folder, requests_at_once)
            self.workers.append(worker)
            await worker.start()
            self.dispatcher.join(worker.link)

        self.on_loop(add)

    def start(self, spec: ServiceSpec, limits: ClientLimits | None, workers: int) -> None:
        async def open_it() -> None:
            self.dispatcher = Dispatcher(spec.limits)
            self.endpoint = await open_port(spec, 0, self.dispatcher, self.said.append, limits=limits)
            self.endpoint.set_health(ServiceState.HEALTHY)

        self._thread.start()
        self.on_loop(open_it)
        for _ in range(workers):
            self.add_worker(spec.scale.requests_at_once)

    def reconfigure(self, spec: ServiceSpec) -> None:
        self.on_loop(lambda: self.endpoint.reconfigure(spec))

    def metrics(self) -> dict[str, Any]:
        async def read() -> dict[str, Any]:
            return self.dispatcher.metrics()

        return self.on_loop(read)

    @property
    def connections(self) -> int:
        return self.endpoint.connections

    def stop(self) -> None:
        async def close() -> None:
            if hasattr(self, "endpoint"):
                await self.endpoint.close(0.0)

        self.on_loop(close)
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait(timeout=20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=20)
        self._loop.close()


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    spec: ServiceSpec | None = None,
    script: str = PLAIN_SCRIPT,
    limits: ClientLimits | None = None,
    workers: int = 1,
) -> Iterator[Front]:
    (folder / "score.py").write_text(script)
    front = Front(folder)
    try:
        front.start(spec or a_spec(), limits, workers)
        yield front
    finally:
        front.stop()
