import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from runyard.node.home_socket import ask_socket
from runyard.serving.gateway import process
from runyard.serving.gateway.identity import GATEWAY_LOCK, GATEWAY_SOCKET, gateway_version
from tests.processes import thread_heaps
from tests.serving.hosting import Hosting, eventually


@pytest.fixture
def only_explicit_collections() -> Iterator[None]:
    """The collector does not start by itself; what a gateway sets is undone."""
    before = gc.get_threshold()
    gc.disable()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


@pytest.mark.usefixtures("only_explicit_collections")
def test_gateway_frees_removed_web_services(hosting: Hosting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_COLLECT_SECONDS", 0.0, raising=False)

    (hosting.home / GATEWAY_LOCK).touch()

    async def serve_one() -> None:
        here = process.Gateway(hosting.home, gateway_version())
        serving = asyncio.create_task(here.serve())
        spec = hosting.spec()
        await asyncio.to_thread(eventually, (hosting.home / GATEWAY_SOCKET).exists, "the gateway")
        assert (await asyncio.to_thread(hosting.deploy, spec)).revision == 1
        service = weakref.ref(here._services[spec.id])
        await asyncio.to_thread(hosting.host.remove, spec.id)
        await asyncio.to_thread(eventually, lambda: service() is None, "the web service's end in memory", 10)
        await asyncio.to_thread(ask_socket, hosting.home, GATEWAY_SOCKET, {"op": "exit"}, timeout_seconds=10)
        await serving

    asyncio.run(serve_one())


def test_threads_of_gateway_share_one_heap(hosting: Hosting) -> None:
    assert hosting.deploy(hosting.spec()).revision == 1
    assert thread_heaps(hosting.gateway()) == 0
