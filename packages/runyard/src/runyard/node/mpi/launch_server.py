import contextlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from runyard.core.errors import RunyardError
from runyard.core.records.launch_plan import LaunchPlan
from runyard.node.mpi.rsh_agent import proof
from runyard.node.processes.event_loop import Readable, now
from runyard.node.task_folder import TaskFolder

_SOCKET = "door.sock"  # the name on disk
_LONGEST_REQUEST = 1 << 20
_MOST_UNAUTHENTICATED = 32
_AUTHENTICATION_SECONDS = 10.0
_ENDED_BY_SIGNAL = 128
_LONGEST_REASON = 2000


class LaunchServer:
    """Listens for the run's launcher (mpirun on node 0), which asks this node to start its daemon.

    A caller proves that it knows the run's secret, and gets the daemon's exit code; if it hangs up earlier, the daemon
    is ended. Nothing blocks: a connection that sends too little, too much or no proof is closed.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        folder: TaskFolder,
        start: Callable[[list[str]], int],
        end: Callable[[int], None],
        watch: Callable[[Readable | int, Callable[[], None]], None],
        unwatch: Callable[[Readable | int], None],
    ) -> None:
        """`start` starts the launcher's command and returns a pid; its OSError or RunyardError is sent to the launcher.
        `end` ends that process and its descendants."""
        self.start, self.end, self.watch, self.unwatch = start, end, watch, unwatch
        self.secret = plan.secret
        self._unauthenticated: list[_Connection] = []
        self._callers: dict[int, _Connection] = {}
        self._socket, self.address = (
            _listen_by_file(folder.scripts) if plan.shares_files else _listen_at(plan.here.address)
        )
        self._socket.setblocking(False)
        watch(self._socket, self._accept)

    def ended(self, pid: int, wait_status: int, why_not_started: str = "") -> None:
        """Send the daemon's exit code, or why it was not started, to its caller. Does nothing without a caller."""
        caller = self._callers.pop(pid, None)
        if caller is not None:
            code = os.waitstatus_to_exitcode(wait_status)
            answer: dict[str, object] = {"exit": code if code >= 0 else _ENDED_BY_SIGNAL - code}
            caller.send({"error": why_not_started[:_LONGEST_REASON]} if why_not_started else answer)
            caller.close()

    def expire(self) -> None:
        """Close connections that have not proved the secret in time."""
        for connection in [one for one in self._unauthenticated if one.connected_at + _AUTHENTICATION_SECONDS <= now()]:
            self.reject(connection)

    def seconds_to_next(self) -> float | None:
        """Seconds until `expire` has something to do; None without such connections."""
        waits = [one.connected_at + _AUTHENTICATION_SECONDS - now() for one in self._unauthenticated]
        return max(0.0, min(waits)) if waits else None

    def close(self) -> None:
        """Stop listening and close all connections. Daemons go on."""
        for caller in [*self._unauthenticated, *self._callers.values()]:
            caller.close()
        self._unauthenticated, self._callers = [], {}
        if self._socket.fileno() >= 0:
            self.unwatch(self._socket)
            self._socket.close()

    def start_for(self, caller: "_Connection", words: list[str]) -> int:
        """Start the command of an authenticated caller. Raises what `start` raises."""
        self._unauthenticated.remove(caller)
        pid = self.start(words)
        self._callers[pid] = caller
        return pid

    def reject(self, caller: "_Connection", why: str = "") -> None:
        if why:
            caller.send({"error": why})
        caller.close()
        if caller in self._unauthenticated:
            self._unauthenticated.remove(caller)

    def hung_up(self, caller: "_Connection") -> None:
        """Close a connection whose caller hung up, and end its daemon."""
        self.reject(caller)
        if caller.pid is not None and self._callers.pop(caller.pid, None) is not None:
            self.end(caller.pid)

    def _accept(self) -> None:
        self.expire()
        try:
            connection, _ = self._socket.accept()
        except OSError:  # the caller is gone, or there are no descriptors left
            return
        if len(self._unauthenticated) >= _MOST_UNAUTHENTICATED:
            self.reject(self._unauthenticated[0])
        self._unauthenticated.append(_Connection(connection, self))


class _Connection:
    """One connection, unauthenticated until it has proved the secret."""

    def __init__(self, connection: socket.socket, server: LaunchServer) -> None:
        self.pid: int | None = None
        self.connected_at = now()
        self._socket, self._server, self._received = connection, server, b""
        self._nonce = secrets.token_hex(16)
        connection.setblocking(False)
        server.watch(connection, self._on_readable)
        self.send({"nonce": self._nonce})

    def send(self, body: dict[str, object]) -> None:
        """Send a few bytes, which fit into the buffer of any connection. Errors show up as a hang-up."""
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps(body).encode() + b"\n")

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._server.unwatch(self._socket)
            self._socket.close()

    def _on_readable(self) -> None:
        try:
            piece = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._server.hung_up(self)
        elif self.pid is None:  # afterwards nothing more is expected
            self._take_request(piece)

    def _take_request(self, piece: bytes) -> None:
        self._received += piece
        if b"\n" not in piece:
            if len(self._received) > _LONGEST_REQUEST:
                self._server.reject(self, "the request is too long")
            return
        words, nonces = self._authenticate(self._received.split(b"\n", 1)[0])
        if words is None:
            return self._server.reject(self, "the request does not show the run's secret")
        try:
            self.pid = self._server.start_for(self, words)
        except (OSError, RunyardError) as e:
            return self._server.reject(self, str(e))
        self.send({"proof": proof(self._server.secret, "answers", nonces, [])})

    def _authenticate(self, line: bytes) -> tuple[list[str] | None, list[str]]:
        """The command of an authenticated request, or None, and the nonces of the connection."""
        try:
            body = json.loads(line)
            nonces, words, given = [self._nonce, str(body["nonce"])], body["words"], str(body["proof"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None, []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return None, nonces
        expected = proof(self._server.secret, "asks", nonces, words)
        known = bool(self._server.secret) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
        return (words if known else None), nonces


def _listen_by_file(folder: Path) -> tuple[socket.socket, str]:
    """Listen on a Unix socket in a folder that only its owner can enter."""
    file = folder / _SOCKET
    file.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A socket's address holds 107 bytes, and the folder's path may be longer.
        listening.bind(f"/proc/self/fd/{place}/{_SOCKET}")
    finally:
        os.close(place)
    file.chmod(0o600)
    listening.listen(64)
    return listening, f"unix:{file}"


def _listen_at(address: str) -> tuple[socket.socket, str]:
    listening = socket.create_server((address, 0), backlog=64)
    return listening, f"tcp:{address}:{listening.getsockname()[1]}"
