"""A real service that listens for other machines, over TLS, and how it is reached as from one."""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop
from uvicorn.server import ServerState

from runyard.server.http.listener import ConnectionLimits, HttpListener
from runyard.server.http.server import OPTIONS, listen
from runyard.server.lifecycle import start_service
from tests.conftest import end_home
from tests.servers.certificates import Certificate, make_certificate
from tests.wire_client import WireClient


@dataclass(frozen=True)
class OpenService:
    facts: dict[str, Any]
    home: Path
    certificate: Certificate

    @property
    def url(self) -> str:
        return str(self.facts["reached_at"])

    @property
    def owner(self) -> WireClient:
        """The owner on another machine."""
        return WireClient(self.url, self.facts["token"], ca=self.certificate.authority)

    def node_home(self, folder: Path, **changes: Any) -> Path:
        """The home of a node that shares no files: it knows where the service is and whom to trust."""
        folder.mkdir(exist_ok=True)
        facts = {"url": self.url, "ca": str(self.certificate.authority), **changes}
        (folder / "service.json").write_text(json.dumps(facts))
        return folder


@contextmanager
def serving_outside(folder: Path, **variables: str) -> Iterator[OpenService]:
    """`variables` are settings of the service beside those of the listener."""
    certificate = make_certificate(folder)
    listener = {
        "RUNYARD_LISTEN": "127.0.0.1:0",
        "RUNYARD_TLS_CERT": str(certificate.chain),
        "RUNYARD_TLS_KEY": str(certificate.key),
    }
    home = folder / "home"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**listener, **variables}.items():
            patch.setenv(name, value)
        facts = start_service(home, keep=True)
    try:
        yield OpenService(facts, home, certificate)
    finally:
        end_home(home)


@contextmanager
def answering(
    context: ssl.SSLContext | None, limits: ConnectionLimits, app: Any = None, *, is_outside: bool = True
) -> Iterator[int]:
    """The listener alone, with an app that says 'done'; the port it listens on."""
    opened = listen("127.0.0.1", 0)
    started, loop = threading.Event(), uvloop.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        server = await HttpListener(opened, context, limits, is_outside).start(app or _done, OPTIONS, ServerState())
        started.set()
        await ended.wait()
        server.close()

    serving = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    serving.start()
    assert started.wait(10)
    try:
        yield opened.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(ended.set)
        serving.join(20)
        loop.close()


async def _done(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})
