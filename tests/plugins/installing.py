"""Packages with plug-ins, installed for one service, and that service."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.server.lifecycle import service_status
from tests.conftest import end_home
from tests.wire_client import WireClient

START_SECONDS = 120.0


def install(folder: Path, name: str, group: str, points: str, *modules: Path) -> None:
    """What an installer leaves of a package: its modules, and its entry points beside them."""
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{group}]\n{points}\n")
    for module in modules:
        (folder / module.name).write_text(module.read_text())


@contextmanager
def service_with(folder: Path, home: Path) -> Iterator[WireClient]:
    """A real service that has the packages in `folder`; a client of it, in a workspace of its own."""
    process, client = start_with(folder, home)
    try:
        client.put(client.here, {"exist_ok": True})
        yield client
    finally:
        end_home(home)
        process.wait(START_SECONDS)


def start_with(folder: Path, home: Path) -> tuple["subprocess.Popen[bytes]", WireClient]:
    """Such a service, left running, and a client of it."""
    home.mkdir(mode=0o700, exist_ok=True)
    variables = {**os.environ, "PYTHONPATH": str(folder), "RUNYARD_HOME": str(home)}
    command = [sys.executable, "-m", "runyard.server.lifecycle.process", "--keep"]
    with open(home / "service.log", "ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=home, env=variables)
    facts, ends_at = None, time.monotonic() + START_SECONDS
    try:
        while (facts := service_status(home)) is None or facts["pid"] != process.pid:
            assert process.poll() is None, (home / "service.log").read_text()
            assert time.monotonic() < ends_at, "The service does not answer."
            time.sleep(0.02)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process, WireClient(str(facts["url"]), str(facts["token"]), workspace="space")
