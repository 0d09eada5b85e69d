import contextlib
import errno
import fcntl
import os
import random
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.core.errors import EngineError
from runyard.core.records.launch_plan import PortRequest

_NEAR_PREFERRED = 100
_LOWEST, _HIGHEST = 20000, 65535
_MOST_TRIED = 2000
_LISTENS = "0A"
_IN_USE = re.compile(r"address already in use|eaddrinuse|errno[: ]*98\b", re.IGNORECASE)


class PortLocks:
    """Reserves ports for this process, until it ends or `close`.

    A port is reserved by a flock on a file named after it in `folder`, so the kernel frees the ports of a killed
    supervisor. Processes that share a network must share a folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: list[int] = []

    def choose(self, requests: Sequence[PortRequest]) -> dict[str, int]:
        """Reserve a port for each request, by name: the preferred one if it is free on every interface, else one near
        it, else another outside the ephemeral range. Raises EngineError when there is none."""
        if requests:
            self._folder.mkdir(parents=True, exist_ok=True)
        return {request.name: self._hold_one(request) for request in requests}

    def close(self) -> None:
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()

    def _hold_one(self, request: PortRequest) -> int:
        for port in _candidates(request.preferred):
            if self._hold(port):
                return port
        raise EngineError(
            f"The node found no free port for {request.name!r}.",
            hint="End what listens on its ports, or use another node.",
        )

    def _hold(self, port: int) -> bool:
        lock = os.open(self._folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        if not is_free(port):
            os.close(lock)
            return False
        self._locks.append(lock)
        return True


@dataclass(frozen=True)
class PortHolder:
    """A process that listens on a port. `pid` is 0 where we may not see it."""

    port: int
    pid: int = 0
    name: str = "another program"

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})" if self.pid else self.name


def is_free(port: int) -> bool:
    """Tell whether a server could bind the port on every interface, by IPv4 and IPv6."""
    return _can_bind(socket.AF_INET, "0.0.0.0", port) and _can_bind(socket.AF_INET6, "::", port)


def says_address_in_use(text: str) -> bool:
    """Tell whether a log's tail says "address already in use"."""
    return _IN_USE.search(text) is not None


def find_foreign_listener(ports: Sequence[int], attempt_id: str) -> PortHolder | None:
    """Find a process that listens on one of these ports and does not belong to the attempt."""
    for port, inode in _listeners():
        if port in ports:
            pid = _owner_of(inode)
            if pid is None:
                return PortHolder(port)
            if f"RUNYARD_ATTEMPT={attempt_id}".encode() not in _read(Path(f"/proc/{pid}/environ")).split(b"\0"):
                return PortHolder(port, pid, _read(Path(f"/proc/{pid}/comm")).decode("utf-8", "replace").strip())
    return None


def _candidates(preferred: int | None) -> Iterator[int]:
    low, high = _ephemeral_range()
    if preferred is not None:
        near = range(preferred, min(preferred + _NEAR_PREFERRED, _HIGHEST + 1))
        yield from (port for port in near if not low <= port <= high)
    others = [port for port in range(_LOWEST, _HIGHEST + 1) if not low <= port <= high]
    yield from random.sample(others, min(_MOST_TRIED, len(others)))


def _ephemeral_range() -> tuple[int, int]:
    """Ports that the kernel gives to outgoing connections: one of these would soon be taken."""
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 32768, 60999


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do; the bind still fails while another socket listens.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
    except OSError as e:
        return e.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # a machine without IPv6
    return True


def _listeners() -> Iterator[tuple[int, str]]:
    """Port and inode of every listening socket in this process's network namespace."""
    for table in ("tcp", "tcp6"):
        for line in _read(Path("/proc/net") / table).decode("ascii", "replace").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS:
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def _owner_of(inode: str) -> int | None:
    wanted = f"socket:[{inode}]"
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{name}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{name}/fd/{descriptor}") == wanted:
                        return int(name)
    return None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
