"""Guards a container engine or registry that tests started: `engine_guard.py FOLDER COMMAND...`.

When its standard input closes, also because the test process died, it ends the server and every container, shim and
mount with FOLDER in its name, and removes FOLDER. It runs as a plain file, on the standard library.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

STOP_SECONDS = 20
_DETACH = 2


def main(folder: str, command: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    server_ended = threading.Thread(target=server.wait, daemon=True)
    server_ended.start()
    while os.read(0, 1):
        pass
    end_processes(folder, below=b"containerd-shim")  # the engine would wait for each container to obey
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
    for _ in range(3):  # a shim that dies may have started its runtime meanwhile
        end_processes(folder)
    unmount(folder)
    remove_cgroups(Path(folder).name)
    shutil.rmtree(folder, ignore_errors=True)


def end_processes(folder: str, below: bytes = b"") -> None:
    """Kill processes with the folder in their command line, and their descendants: the containers. With `below`, only
    the descendants of those that have that text in it too."""
    parents = _parents()
    lines = {pid: _command_line(pid) for pid in parents if pid != os.getpid()}
    named = {pid for pid, line in lines.items() if os.fsencode(folder) in line and below in line}
    for pid in [*_below(named, parents), *(() if below else named)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def unmount(folder: str) -> None:
    libc = ctypes.CDLL(None)
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines]
    for point in sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True):
        libc.umount2(os.fsencode(point), _DETACH)


def remove_cgroups(name: str) -> None:
    for group in sorted(Path("/sys/fs/cgroup").glob(f"*/{name}/**/"), reverse=True):
        with contextlib.suppress(OSError):
            group.rmdir()


def _parents() -> dict[int, int]:
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _below(roots: set[int], parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in roots | found} - found - roots:
        found |= more
    return found - {os.getpid()}


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "cmdline").read_bytes()
    return b""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
