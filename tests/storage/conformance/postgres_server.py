"""A private PostgreSQL for the tests: loopback only, in a temporary folder, gone afterwards."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_server() -> Iterator[str]:
    """Starts a server and yields its address; raises when PostgreSQL is not installed."""
    programs = _programs()
    home = Path(tempfile.mkdtemp(prefix="runyard-postgres-"))
    data, port = home / "data", _free_port()
    as_user = _as_ordinary_user(home)
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {home} -c fsync=off"
    try:
        _run([*as_user, programs / "initdb", "-D", data, "-U", "runyard", "--auth=trust", "-N", "-E", "UTF8"], home)
        _run([*as_user, programs / "pg_ctl", "-D", data, "-l", home / "log", "-w", "-o", options, "start"], home)
        try:
            yield f"postgresql+psycopg://runyard@127.0.0.1:{port}/postgres"
        finally:
            _run([*as_user, programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], home)
    finally:
        shutil.rmtree(home)


def _programs() -> Path:
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not found:
        raise RuntimeError(
            "PostgreSQL is not installed: run `make ci-setup`, or set RUNYARD_TEST_POSTGRES to a server."
        )
    return found[0]


def _as_ordinary_user(home: Path) -> list[str]:
    """initdb refuses root, so root becomes nobody, to whom the folder must belong."""
    if os.geteuid() != 0:
        return []
    shutil.chown(home, "nobody", "nogroup")
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _run(command: list[str | Path], folder: Path) -> None:
    # The server inherits these streams: a pipe would keep us waiting for it to end.
    with (folder / "setup.log").open("a+b") as log:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        log.seek(0)
        assert done.returncode == 0, log.read().decode(errors="replace")
