"""The program pasta (of the project passt), which carries a network namespace's connections to the outside."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from runyard.errors import EngineError
from runyard.node.processes import die_with_parent

_READY_SECONDS = 5.0


def find_pasta() -> str | None:
    return shutil.which("pasta")


def start_pasta(program: str, holder: int, folder: Path, loopback_ports: Sequence[int]) -> int:
    """Connect the network of process `holder`; returns the pid of pasta, which works and ends with this process.

    Inside, connections to any address go out, and those to `loopback_ports` of 127.0.0.1 to this machine's.
    Nothing outside can connect to what listens inside. EngineError, with what pasta said, when it does not work.
    """
    with tempfile.TemporaryDirectory(prefix="pasta-", dir=folder) as place:
        ready, said = Path(place, "ready"), Path(place, "said")
        os.mkfifo(ready)
        news = os.open(ready, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            with said.open("wb") as output:
                pid = _spawn(_words(program, holder, ready, loopback_ports), output.fileno())
            if _says_it_is_ready(news, pid):
                return pid
            os.kill(pid, signal.SIGKILL)
            raise EngineError(f"pasta could not connect a private network: {_last_words(said)}")
        finally:
            os.close(news)


def _words(program: str, holder: int, ready: Path, loopback_ports: Sequence[int]) -> list[str]:
    target = ["--netns", f"/proc/{holder}/ns/net", "--runas", "0:0"]
    if os.geteuid() != 0:
        target = ["--userns", f"/proc/{holder}/ns/user", "--netns", f"/proc/{holder}/ns/net"]
    inwards = ["--tcp-ports", "none", "--udp-ports", "none"]
    ports = ",".join(map(str, loopback_ports)) or "none"
    # UDP: names alone. The gateway stays the gateway, where pasta would put this machine: it may serve names too.
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
    process.returncode = 0  # Whoever started us reaps it; Popen must not.
    return process.pid


def _says_it_is_ready(news: int, pid: int) -> bool:
    """pasta writes its pid file when everything is set up."""
    life = os.pidfd_open(pid)
    try:
        ends_at = time.monotonic() + _READY_SECONDS
        while (left := ends_at - time.monotonic()) > 0:
            changed, _, _ = select.select([news, life], [], [], left)
            if news in changed and os.read(news, 64):
                return True
            if life in changed:
                return False
        return False
    finally:
        os.close(life)


def _last_words(said: Path) -> str:
    lines = [line for line in said.read_text(errors="replace").splitlines() if "syslog" not in line]
    return " ".join(lines[-3:]).strip() or "it said nothing."
