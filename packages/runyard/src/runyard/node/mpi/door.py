import contextlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from runyard.errors import RunyardError
from runyard.model.plan import LaunchPlan
from runyard.node.attempt import AttemptFolder
from runyard.node.event_loop import Readable, now
from runyard.node.mpi.rsh_agent import proof

_SOCKET = "door.sock"
_LONGEST_REQUEST = 1 << 20
_MOST_STRANGERS = 32
_STRANGER_SECONDS = 10.0
_ENDED_BY_SIGNAL = 128
_LONGEST_REASON = 2000


class Door:
    """Where the run's launcher, and nobody else, asks this node to start its daemon.

    A caller shows by the run's secret that it belongs to the run and gets the daemon's exit code; when it goes
    before, the daemon is ended. Nothing here waits: strangers who say too little, too much or the wrong thing
    are shown out, and cost the supervisor no more than that.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        folder: AttemptFolder,
        start: Callable[[list[str]], int],
        end: Callable[[int], None],
        watch: Callable[[Readable | int, Callable[[], None]], None],
        unwatch: Callable[[Readable | int], None],
    ) -> None:
        """`start` gets the words that the launcher wants run and gives a pid; its OSError or RunyardError is told to
        the launcher. `end` ends that process and all below it."""
        self.start, self.end, self.watch, self.unwatch = start, end, watch, unwatch
        self.secret = plan.secret
        self._strangers: list[_Caller] = []
        self._callers: dict[int, _Caller] = {}
        self._socket, self.address = (
            _listen_by_file(folder.scripts) if plan.shares_files else _listen_at(plan.here.address)
        )
        self._socket.setblocking(False)
        watch(self._socket, self._welcome)

    def ended(self, pid: int, wait_status: int, why_not_started: str = "") -> None:
        """Tell who asked for that daemon how it ended, or why it never was. Quiet when nobody waits for it."""
        caller = self._callers.pop(pid, None)
        if caller is not None:
            code = os.waitstatus_to_exitcode(wait_status)
            told: dict[str, object] = {"exit": code if code >= 0 else _ENDED_BY_SIGNAL - code}
            caller.send({"error": why_not_started[:_LONGEST_REASON]} if why_not_started else told)
            caller.close()

    def expire(self) -> None:
        """Show out who has not shown the secret in time."""
        for stranger in [one for one in self._strangers if one.came_at + _STRANGER_SECONDS <= now()]:
            self.show_out(stranger)

    def seconds_to_next(self) -> float | None:
        """When `expire` has something to do; None while nobody waits."""
        waits = [one.came_at + _STRANGER_SECONDS - now() for one in self._strangers]
        return max(0.0, min(waits)) if waits else None

    def close(self) -> None:
        """Nobody is let in any more; daemons are left as they are."""
        for caller in [*self._strangers, *self._callers.values()]:
            caller.close()
        self._strangers, self._callers = [], {}
        if self._socket.fileno() >= 0:
            self.unwatch(self._socket)
            self._socket.close()

    def let_in(self, caller: "_Caller", words: list[str]) -> int:
        """Start what a caller who has shown the secret asks for. Raises what `start` raises."""
        self._strangers.remove(caller)
        pid = self.start(words)
        self._callers[pid] = caller
        return pid

    def show_out(self, caller: "_Caller", why: str = "") -> None:
        if why:
            caller.send({"error": why})
        caller.close()
        if caller in self._strangers:
            self._strangers.remove(caller)

    def left(self, caller: "_Caller") -> None:
        """A caller hung up: what it asked for has nobody any more."""
        self.show_out(caller)
        if caller.pid is not None and self._callers.pop(caller.pid, None) is not None:
            self.end(caller.pid)

    def _welcome(self) -> None:
        self.expire()
        try:
            connection, _ = self._socket.accept()
        except OSError:  # it has gone already, or there are no descriptors left
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            self.show_out(self._strangers[0])
        self._strangers.append(_Caller(connection, self))


class _Caller:
    """One connection. A stranger, until it has shown the secret."""

    def __init__(self, connection: socket.socket, door: Door) -> None:
        self.pid: int | None = None
        self.came_at = now()
        self._socket, self._door, self._heard = connection, door, b""
        self._nonce = secrets.token_hex(16)
        connection.setblocking(False)
        door.watch(connection, self._hear)
        self.send({"nonce": self._nonce})

    def send(self, body: dict[str, object]) -> None:
        """A few bytes, for which every connection has room. Who does not take them is seen to hang up."""
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps(body).encode() + b"\n")

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._door.unwatch(self._socket)
            self._socket.close()

    def _hear(self) -> None:
        try:
            piece = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._door.left(self)
        elif self.pid is None:  # afterwards there is nothing to say
            self._take(piece)

    def _take(self, piece: bytes) -> None:
        self._heard += piece
        if b"\n" not in piece:
            if len(self._heard) > _LONGEST_REQUEST:
                self._door.show_out(self, "the request is too long")
            return
        words, nonces = self._checked(self._heard.split(b"\n", 1)[0])
        if words is None:
            return self._door.show_out(self, "the request does not show the run's secret")
        try:
            self.pid = self._door.let_in(self, words)
        except (OSError, RunyardError) as e:
            return self._door.show_out(self, str(e))
        self.send({"proof": proof(self._door.secret, "answers", nonces, [])})

    def _checked(self, line: bytes) -> tuple[list[str] | None, list[str]]:
        """The words of a request that shows the secret, and the nonces of the conversation."""
        try:
            body = json.loads(line)
            nonces, words, given = [self._nonce, str(body["nonce"])], body["words"], str(body["proof"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None, []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return None, nonces
        expected = proof(self._door.secret, "asks", nonces, words)
        known = bool(self._door.secret) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
        return (words if known else None), nonces


def _listen_by_file(folder: Path) -> tuple[socket.socket, str]:
    """In a folder that only its owner can enter."""
    file = folder / _SOCKET
    file.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A socket's address holds 107 bytes, and the folder may lie deeper than that.
        listening.bind(f"/proc/self/fd/{place}/{_SOCKET}")
    finally:
        os.close(place)
    file.chmod(0o600)
    listening.listen(64)
    return listening, f"unix:{file}"


def _listen_at(address: str) -> tuple[socket.socket, str]:
    listening = socket.create_server((address, 0), backlog=64)
    return listening, f"tcp:{address}:{listening.getsockname()[1]}"
