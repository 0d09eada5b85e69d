"""Runs pasta (of the project passt), which connects a network namespace to the outside."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from runyard.core.errors import EngineError
from runyard.node.processes.procfs import die_with_parent

_READY_SECONDS = 5.0


def find_pasta() -> str | None:
    return shutil.which("pasta")


def start_pasta(program: str, holder: int, folder: Path, loopback_ports: Sequence[int]) -> int:
    """Connect the network of process `holder`. Returns the pid of pasta, which ends with this process.

    Connections from inside go to any address, and those to `loopback_ports` of 127.0.0.1 to this machine's loopback.
    Nothing outside can connect to a server inside. Raises EngineError with pasta's output when it fails.
    """
    with tempfile.TemporaryDirectory(prefix="pasta-", dir=folder) as place:
        ready, log = Path(place, "ready"), Path(place, "said")
        os.mkfifo(ready)
        ready_fd = os.open(ready, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            with log.open("wb") as output:
                pid = _spawn(_command(program, holder, ready, loopback_ports), output.fileno())
            if _wait_until_ready(ready_fd, pid):
                return pid
            os.kill(pid, signal.SIGKILL)
            raise EngineError(f"pasta could not connect a private network: {_log_tail(log)}")
        finally:
            os.close(ready_fd)


def _command(program: str, holder: int, ready: Path, loopback_ports: Sequence[int]) -> list[str]:
    target = ["--netns", f"/proc/{holder}/ns/net", "--runas", "0:0"]
    if os.geteuid() != 0:
        target = ["--userns", f"/proc/{holder}/ns/user", "--netns", f"/proc/{holder}/ns/net"]
    inwards = ["--tcp-ports", "none", "--udp-ports", "none"]
    ports = ",".join(map(str, loopback_ports)) or "none"
    # UDP: name lookups only. --no-map-gw: the gateway's address stays the gateway's, which may be the name server.
    outwards = ["--tcp-ns", ports, "--udp-ns", "53" if 53 in loopback_ports else "none", "--no-map-gw"]
    return [program, "--foreground", "--stderr", "--config-net", "--pid", str(ready), *inwards, *outwards, *target]


def _spawn(words: list[str], output: int) -> int:
    parent = os.getpid()
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(parent),
    )
    process.returncode = 0  # The event loop reaps it; Popen must not.
    return process.pid


def _wait_until_ready(ready_fd: int, pid: int) -> bool:
    """Wait for pasta's pid file, which it writes when everything is set up."""
    life = os.pidfd_open(pid)
    try:
        ends_at = time.monotonic() + _READY_SECONDS
        while (left := ends_at - time.monotonic()) > 0:
            changed, _, _ = select.select([ready_fd, life], [], [], left)
            if ready_fd in changed and os.read(ready_fd, 64):
                return True
            if life in changed:
                return False
        return False
    finally:
        os.close(life)


def _log_tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if "syslog" not in line]
    return " ".join(lines[-3:]).strip() or "it said nothing."
