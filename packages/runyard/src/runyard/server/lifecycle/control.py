"""Start, stop and find the service of a home, and stop its web services. Imports nothing heavy."""

import fcntl
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from runyard.core.durable_files import try_exclusive_lock
from runyard.core.errors import RunyardError
from runyard.core.version import API, VERSION, WIRE
from runyard.core.worker_variables import WORKER_VARIABLES
from runyard.node.home_socket import ask_agent, ask_socket
from runyard.node.processes.detached import tries_within
from runyard.server.lifecycle.discovery import Facts, read_facts, take_start_error
from runyard.serving.gateway.identity import GATEWAY_LOCK, GATEWAY_SOCKET
from runyard.storage.home import prepare_home, require_linux, require_own_home, require_space
from runyard_sdk.home import home_identity, private
from runyard_sdk.start import as_numbers, build_of

START_SECONDS = 60.0
POLL_SECONDS = 0.02
UNINHERITED_VARIABLES = WORKER_VARIABLES | {
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PYTHONDONTWRITEBYTECODE",
}


def service_status(home: Path) -> Facts | None:
    """Content of service.json if that service answers, else None."""
    require_own_home(home)
    facts = read_facts(home)
    if facts is None:
        return None
    health = _ask(facts, "GET", "/health")
    if health is None or health.get("pid") != facts.get("pid"):
        return None
    # The file of version 0.1.0 does not name its home, so a copied file would lead to the original's service.
    if "home_id" not in facts and home_identity(str(health.get("home"))) != home_identity(str(home)):
        return None
    return facts


def start_service(home: Path, keep: bool) -> Facts:
    """Find or start the service. With `keep` it stays when idle, also where it was running already."""
    require_linux()
    prepare_home(home)
    with _start_lock(home):
        found = service_status(home)
        if found is not None and build_of(found) < (as_numbers(VERSION), API):
            # An older service lacks routes that this version calls. Runs go on during the restart.
            keep = keep or bool(found.get("kept"))
            stop_service(home)
            found = None
        if found is None:
            take_start_error(home)
            found = _await(home, _launch(home, keep))
    if keep and not found.get("kept"):
        _ask(found, "POST", "/keep")
        found = {**found, "kept": True}
    return found


def stop_service(home: Path) -> bool:
    """Stop the service, and its node agent unless runs need that; wait until it is gone. False if none was running.

    Web services go on answering. Raises RunyardError where the service does not stop.
    """
    facts = service_status(home)
    if facts is None:
        return False
    _ask(facts, "POST", "/shutdown")
    deadline = time.monotonic() + START_SECONDS
    while _is_held(home / "service.lock"):
        if time.monotonic() > deadline:
            raise RunyardError(f"The service (process {facts['pid']}) does not stop.", hint=f"See {home}/service.log.")
        time.sleep(POLL_SECONDS)
    _stop_idle_agent(home)
    return True


@contextmanager
def _start_lock(home: Path) -> Iterator[None]:
    with open(home / "start.lock", "a", opener=private) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _launch(home: Path, keep: bool) -> "subprocess.Popen[bytes]":
    variables = {name: value for name, value in os.environ.items() if name not in UNINHERITED_VARIABLES}
    command = [sys.executable, "-m", "runyard.server.lifecycle.process", "--keep" if keep else "--on-demand"]
    with open(home / "service.log", "ab", opener=private) as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home,
            env={**variables, "RUNYARD_HOME": str(home)},
            start_new_session=True,
        )


def _await(home: Path, process: "subprocess.Popen[bytes]") -> Facts:
    for _ in tries_within(START_SECONDS):
        ended = process.poll() is not None
        found = service_status(home)
        if found is not None:
            process.returncode = 0  # it outlives us on purpose: avoids the ResourceWarning
            return found
        if ended:
            failure = take_start_error(home)
            if failure is None:
                require_space(home)  # on a full disk it cannot write its error
                raise RunyardError(
                    f"The service ended with {process.returncode} before it answered.",
                    hint=f"See {home / 'service.log'}.",
                )
            raise RunyardError(failure[0], hint=failure[1])
        time.sleep(POLL_SECONDS)
    raise RunyardError(
        f"The service did not answer within {START_SECONDS:.0f} seconds.", hint=f"See {home}/service.log."
    )


def _ask(facts: Facts, method: str, path: str) -> Facts | None:
    """JSON of the response, or None where nothing answers as our service does."""
    address = urlsplit(str(facts.get("url", "")))
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 0, timeout=10)
    try:
        connection.request(method, f"/api/v{WIRE}{path}", headers={"Authorization": f"Bearer {facts.get('token')}"})
        answer = connection.getresponse()
        body = json.loads(answer.read() or b"{}")
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if answer.status < 300 and isinstance(body, dict) else None


def _is_held(lock: Path) -> bool:
    with open(lock, "a", opener=private) as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _stop_idle_agent(home: Path) -> None:
    """Stop the agent unless it has attempts, whose supervisors it watches."""
    with suppress(OSError, ValueError, KeyError):
        if not ask_agent(home, {"op": "status"})["attempts"]:
            ask_agent(home, {"op": "exit"})


GATEWAY_STOP_SECONDS = 30.0
GATEWAY_POLL_SECONDS = 0.05


def stop_web_services(home: Path) -> int:
    """Stop the gateway and its workers; return how many web services that stopped. They restart with the service.

    Stop the service first: it would start the gateway again. Raises RunyardError where the gateway does not end.
    """
    began, stopped = time.monotonic(), 0
    while _has_gateway(home):
        stopped = max(stopped, _ask_gateway(home) or 0)
        _ask_gateway(home, op="exit")
        if time.monotonic() - began > GATEWAY_STOP_SECONDS:
            raise RunyardError("The gateway of web services does not end.", hint=f"See {home}/gateway.log.")
        time.sleep(GATEWAY_POLL_SECONDS)
    return stopped


def count_web_services(home: Path) -> int:
    """Number of web services that the gateway of this home serves."""
    return _ask_gateway(home) or 0


def _has_gateway(home: Path) -> bool:
    """Whether a gateway runs, or is being restarted after a crash."""
    if not (home / GATEWAY_LOCK).exists():
        return False
    with try_exclusive_lock(home / GATEWAY_LOCK) as is_free:
        return not is_free


def _ask_gateway(home: Path, op: str = "status") -> int | None:
    """Send `op` to the gateway; the number of its web services, or None where none answers."""
    try:
        return len(ask_socket(home, GATEWAY_SOCKET, {"op": op}).get("services") or ())
    except (OSError, ValueError):
        return None
