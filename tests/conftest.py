import contextlib
import gc
import itertools
import os
import signal
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from runyard.node.home_socket import ask_socket
from runyard.server.lifecycle import service_status, start_service, stop_service
from tests.forked_processes import ForkServer, Helpers, forked_helpers, forked_services, started_programs
from tests.processes import pids, words_of
from tests.wire_client import WireClient

pytest_plugins = ["tests.leftovers", "tests.needs"]
ENDING_SECONDS = 60.0
GARBAGE_AFTER_OBJECTS = 50_000
"""Instead of 700: tests that parse the whole source take a third of the time."""
_numbers = itertools.count(1)
settings.register_profile("runyard", deadline=None)  # a busy machine fails no test by its slowness
settings.load_profile("runyard")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fork-services", action="store_true", help="start services, agents and gateways as forks")


def pytest_configure() -> None:
    if not entry_points(group="runyard.compute"):
        raise pytest.UsageError("runyard was installed before it had entry points. Run: make .venv/.dev")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay until the end: looking for garbage among them takes a seventh of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE_AFTER_OBJECTS)
        gc.enable()


@pytest.fixture(scope="session")
def helpers(request: pytest.FixtureRequest) -> Iterator[Helpers | None]:
    if not request.config.getoption("--fork-services"):
        yield None
        return
    with forked_helpers() as made:
        yield made


@pytest.fixture(scope="session")
def fork_server(helpers: Helpers | None) -> Iterator[ForkServer]:
    server = ForkServer(helpers=helpers)
    yield server
    server.close()


@pytest.fixture(scope="session", autouse=True)
def services_are_forks(request: pytest.FixtureRequest, helpers: Helpers | None) -> Iterator[None]:
    if helpers is None:
        yield
        return
    with forked_services(request.getfixturevalue("fork_server"), helpers):
        yield


@pytest.fixture
def services_are_programs() -> Iterator[None]:
    """For tests of the start itself."""
    with started_programs():
        yield


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home of its own; whatever serves it at the end is stopped."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    yield folder
    end_home(folder)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The facts of a real service on loopback, shared by all tests; `client` gives each its own workspace."""
    with serving(tmp_path_factory.mktemp("service") / "home") as facts:
        yield facts


@pytest.fixture
def client(service: dict[str, Any]) -> WireClient:
    """Speaks with the owner's token, in a fresh workspace."""
    made = WireClient(service["url"], service["token"], workspace=f"space{next(_numbers)}")
    made.put(made.here, {"exist_ok": True})
    return made


@contextlib.contextmanager
def serving(home: Path) -> Iterator[dict[str, Any]]:
    facts = start_service(home, keep=True)
    yield {**facts, "home": str(home)}
    end_home(home)


def end_home(folder: Path) -> None:
    """Stop the service, the gateway and the agent of a home. A service that does not answer is killed."""
    facts = service_status(folder)
    if facts is not None:
        try:
            stop_service(folder)
        except Exception:
            os.kill(int(facts["pid"]), signal.SIGKILL)
            raise
    _dismiss(folder, b"runyard.serving.gateway", "gateway.sock")
    _dismiss(folder, b"runyard.node.exit_keeper", "agent.sock")


def _dismiss(home: Path, program: bytes, socket: str) -> None:
    ends_at = time.monotonic() + ENDING_SECONDS
    while _runs(home, program) and time.monotonic() < ends_at:  # one that is just starting does not listen yet
        with contextlib.suppress(OSError, ValueError):
            ask_socket(home, socket, {"op": "exit"})
        time.sleep(0.02)


def _runs(home: Path, program: bytes) -> bool:
    command = program + b"\0" + os.fsencode(home) + b"\0"
    return any(command in next(words_of(pid), b"") for pid in pids())
