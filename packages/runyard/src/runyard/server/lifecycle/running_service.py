"""The running service: listeners, platform and HTTP server, from the taken lock to the last response.

`process` imports this module when it has the lock of the home.
"""

import logging
import os
import secrets
import shutil
import sys
from pathlib import Path

from runyard.assets.secrets import private_file
from runyard.core.durable_files import replace_file
from runyard.core.heap import share_heap
from runyard.core.settings import Settings
from runyard.core.version import API, VERSION, WIRE
from runyard.node.data.mount_points import unmount_leftovers
from runyard.server.http.server import HttpServer, listen
from runyard.server.lifecycle.discovery import Facts, boot_id, host_name, remove_facts, write_facts
from runyard.server.lifecycle.home_copy import find_original, record_location
from runyard.server.lifecycle.lease import LeaseSession, StoppedOnStandby
from runyard.server.lifecycle.public_listener import open_public_listener
from runyard.server.wiring.platform import Platform, build
from runyard_sdk.home import home_identity

log = logging.getLogger("runyard.server.lifecycle.running_service")


def run_service(settings: Settings, *, keep: bool) -> None:
    """Serve until asked to stop, or idle without `keep`. The caller holds the lock of the home."""
    share_heap()
    home = settings.home
    token = private_file(home / "token", _new_token).decode().strip()
    settings, outside = open_public_listener(settings)
    socket = listen(settings.host, settings.port, last=_last_port(home))
    port = socket.getsockname()[1]
    url = f"http://{_client_host(settings.host)}:{port}"
    server = HttpServer(socket, idle_seconds=None if keep else settings.idle_seconds, outside=outside)
    facts = {
        "url": url,
        "token": token,
        "pid": os.getpid(),
        "home": os.path.realpath(home),
        "home_id": home_identity(str(home)),
        "host": host_name(),
        "boot": boot_id(),
        "version": VERSION,
        "wire": WIRE,
        "api": API,
        "python": sys.executable,
        "runyard": _record_program(home),
        "kept": keep,
        **({"reached_at": settings.node_url} if settings.node_url else {}),
    }

    holding = LeaseSession(home, facts, socket, server.stop)
    try:
        platform = build(settings, token, base_url=url, stop=server.stop, hold=holding.hold)
    except StoppedOnStandby:
        log.info("The service of %s stops. It stood by.", home)
        remove_facts(home, os.getpid())
        return

    def keep_running() -> None:
        server.keep()
        write_facts(home, {**facts, "kept": True})

    platform.app.state.keep = keep_running
    try:
        platform.services.store_files.forget_incoming()
        platform.core.blobs.remove_abandoned()
        unmount_leftovers(home)
        _fail_runs_of_original(platform, settings)
        platform.controller.start()
        platform.services.packages.fail_interrupted()
        platform.services.profiles.fail_interrupted()
        platform.services.service_reconciler.start()
        replace_file(home / "port", str(port).encode())
        server.run(
            platform.app,
            is_busy=platform.services.runs.has_unfinished,
            on_started=lambda: _announce(home, facts),
            on_stopping=platform.core.notifier.stop,
        )
    finally:
        log.info("The service of %s stops. Runs go on.", home)
        remove_facts(home, os.getpid())
        platform.close(holding.release)
    holding.require()


def _fail_runs_of_original(platform: Platform, settings: Settings) -> None:
    """Fail the unfinished runs of a copied home: they go on in the original. Runs of a database server that both homes
    share are left to the holder of its lease."""
    original = find_original(settings.home)
    if original is not None and not settings.database_url:
        why = f"This home was copied from {original} before the run had ended. The run belongs to that home."
        count = platform.controller.fail_unfinished(why)
        log.warning(
            "%s is a copy of %s. %d runs that had not ended are Failed here and go on there. Web services get ports "
            "of their own here; one whose port was chosen by its user waits until that port is free.",
            settings.home,
            original,
            count,
        )
    record_location(settings.home)


def _announce(home: Path, facts: Facts) -> None:
    write_facts(home, facts)
    others = f" and, for other machines, {facts['reached_at']}" if "reached_at" in facts else ""
    log.info("Runyard %s serves %s at %s%s.", VERSION, home, facts["url"], others)


def _client_host(host: str) -> str:
    """Host for local clients: loopback where the service listens on every interface."""
    if host in ("", "0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _new_token() -> bytes:
    return secrets.token_urlsafe(32).encode()


def _last_port(home: Path) -> int:
    try:
        return int((home / "port").read_text())
    except (OSError, ValueError):
        return 0


def _record_program(home: Path) -> str:
    """Write the path of the `runyard` program, for SDKs of other interpreters; return it."""
    beside = Path(sys.executable).with_name("runyard")
    program = str(beside) if beside.is_file() else shutil.which("runyard") or ""
    if program:
        replace_file(home / "runyard-path", program.encode())
    return program
