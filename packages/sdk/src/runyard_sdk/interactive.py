"""Interactive runs: their script is this process, and metrics are sent from here.

With a service on the same machine, `home/interactive/RUN_ID` holds a journal per process that logs to the run, and a
claim of the process that began it, each locked while its process lives. Unlocked files were left by a killed process:
the service stores the journal, and ends a run whose claim nobody holds. With a service elsewhere, lines are kept in
memory (`Outbox`).
"""

import os
import re
from collections import deque

from runyard_sdk.discovery import running
from runyard_sdk.errors import Conflict, RunyardError, StorageFull
from runyard_sdk.home import home_folder
from runyard_sdk.journal import KEPT_LINES, FileJournal, Journal

_RUN_ID = re.compile(r"[\w.-]{1,200}\Z")
_TRIES_AGAINST_REMOVAL = 5
PIECE_BYTES = 4 << 20
SEND_EVERY_SECONDS = 0.05
_REST_AFTER_FAILURE_SECONDS = 1


def journal_of(client, run_id):
    """Journal for lines of a run from outside it: a file where the service can find it, else in memory."""
    folder = folder_of(client, run_id)
    return Outbox(client, run_id) if folder is None else ShippedJournal(client, folder, run_id)


def claim(client, run_id):
    """Claim a run for this process; None where the service could not see the claim."""
    folder = folder_of(client, run_id)
    if folder is None:
        return None
    try:
        return Claim(folder)
    except OSError:
        return None  # a full disk must not stop a training


def folder_of(client, run_id):
    """Folder of the run in the home of the client's service; None if that is not on this machine."""
    if not _RUN_ID.match(run_id) or run_id.startswith("."):
        return None
    found = running()
    if not found or found["url"].rstrip("/") != client.transport.address or not client.shares_files:
        return None
    return os.path.join(home_folder(), "interactive", run_id)


class Claim:
    """Declares that a run ends with this process, until released."""

    def __init__(self, folder):
        name = "owner-" + os.urandom(8).hex()
        self._folder, self._path = folder, os.path.join(folder, name)
        self._fd = _locked_file(folder, name)

    def release(self):
        """Release: the run has ended, or never began. No effect if released already."""
        if self._fd is not None:
            _remove(self._path)
            os.close(self._fd)
            self._fd = None
            _remove_if_empty(self._folder)


class ShippedJournal(FileJournal):
    """Journal that is on disk when `append` returns, and that a thread of this process sends."""

    def __init__(self, client, folder, run_id):
        super().__init__(folder, run_id)
        self._client = client

    def flush(self):
        """Send everything now. Raises the service's error."""
        if self._pid == os.getpid():
            self._sender.flush()

    def close(self):
        """Send the rest and remove the file; a line appended later begins a new one."""
        if self._pid == os.getpid():
            self._sender.close()
            self._pid = None
            if self._fd is not None:
                _remove(os.path.join(self._folder, self._name))
                os.close(self._fd)
                self._fd = None
                _remove_if_empty(self._folder)

    def _append(self, line):
        super()._append(line)
        self._sender.wake()

    def _begin(self):
        super()._begin()
        self._sender = Sender(self._send)

    def _new_file(self, name):
        self._name, self._offset = name, 0
        return _locked_file(self._folder, name)

    def _send(self):
        is_written = self.retry()
        lines = self._unsent_lines()
        while lines:
            try:
                name = self._name[:-len(".jsonl")]
                self._offset = deliver(self._client, self._run_id, name, self._offset, lines)
            except Conflict as gap:
                self._offset = gap.facts.get("offset", 0)
                raise
            lines = self._unsent_lines()
        if not is_written:
            raise StorageFull("The last lines that run {} logged could not be written to {}.".format(
                self._run_id, self._folder), hint="Make room on that disk.")

    def _unsent_lines(self):
        size = PIECE_BYTES
        while self._fd is not None:
            piece = os.pread(self._fd, size, self._offset)
            end = piece.rfind(b"\n") + 1
            if end or len(piece) < size:
                return piece[:end]
            size *= 2  # a single line longer than that
        return b""


def _locked_file(folder, name):
    """Create a file to read and append to, locked before it is visible under its name; creates its folder."""
    for _ in range(_TRIES_AGAINST_REMOVAL - 1):
        try:
            return _new_locked_file(folder, name)
        except FileNotFoundError:
            pass  # the folder was empty and has just been removed
    return _new_locked_file(folder, name)


def _new_locked_file(folder, name):
    import fcntl

    os.makedirs(folder, mode=0o700, exist_ok=True)
    hidden = os.path.join(folder, "." + name)
    fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.rename(hidden, os.path.join(folder, name))
    except OSError:
        os.close(fd)
        raise
    return fd


def _remove(path):
    try:
        os.remove(path)
    except OSError:
        pass  # the service was first, or the disk is no longer ours: the service looks again later


def _remove_if_empty(folder):
    try:
        os.rmdir(folder)
    except OSError:
        pass  # another process still logs to the run


class Outbox(Journal):
    """Journal in memory that is sent to a remote service, for runs that no supervisor watches.

    `append` never blocks. `flush` returns once all lines appended before are stored. While the service does not answer,
    the newest `KEPT_LINES` lines are kept. A forked child has its own journal.
    """

    def __init__(self, client, run_id, rank="0"):
        super().__init__()
        self._client, self._run_id, self._rank = client, run_id, rank
        self._pid = None

    def flush(self):
        """Send everything now. Raises the service's error."""
        if self._pid == os.getpid():
            self._sender.flush()

    def close(self):
        """Send the rest; a line appended later begins a new journal."""
        if self._pid == os.getpid():
            self._sender.close()
            self._pid = None

    def _append(self, line):
        if self._pid != os.getpid():
            self._begin()
        self._lines.append(line)
        self._sender.wake()

    def _begin(self):
        self._lines, self._unsent, self._dropped, self._offset = deque(), b"", 0, 0
        self._name = "{}~{}-{}-{}".format(self._run_id, self._rank, os.getpid(), os.urandom(4).hex())
        self._sender = Sender(self._send, failed=self._trim)
        self._pid = os.getpid()

    def _send(self):
        while self._lines or self._unsent:
            if not self._unsent:
                self._unsent = self._taken()
            try:
                self._offset = deliver(self._client, self._run_id, self._name, self._offset, self._unsent)
            except Conflict as gap:
                self._offset = gap.facts.get("offset", 0)
                raise
            self._unsent = b""

    def _taken(self):
        lines = []
        if self._dropped:
            lines.append('["drop", {}]\n'.format(self._dropped).encode("ascii"))
            self._dropped = 0
        size = 0
        while self._lines and size < PIECE_BYTES:
            line = self._lines.popleft()
            lines.append(line)
            size += len(line)
        return b"".join(lines)

    def _trim(self):
        while len(self._lines) > KEPT_LINES:
            self._lines.popleft()
            self._dropped += 1


def deliver(client, run_id, journal, offset, lines):
    """Store lines that begin at byte `offset` of a journal; return the offset stored so far.

    A service that has less than `offset` raises Conflict with its own in `facts["offset"]`.
    """
    from runyard_sdk.client import quoted

    path = "/runs/{}/journals/{}".format(quoted(run_id), quoted(journal))
    return client.post_bytes(path, lines, offset=offset)["offset"]


class Sender:
    """Thread that calls `send` soon after each `wake`, and once more when the process ends.

    Never calls `send` concurrently. After a RunyardError it calls `failed`, and `send` again later.
    """

    def __init__(self, send, failed=lambda: None):
        import atexit
        import threading

        self._send, self._failed = send, failed
        self._wake, self._closed, self._sending = threading.Event(), threading.Event(), threading.Lock()
        threading.Thread(target=self._work, name="runyard-sender", daemon=True).start()
        atexit.register(self._at_exit)

    def wake(self):
        if not self._wake.is_set():
            self._wake.set()

    def flush(self):
        """Send everything now. Raises the service's error."""
        with self._sending:
            self._send()

    def close(self):
        """End the thread, and send what is left."""
        import atexit

        self._closed.set()
        self._wake.set()
        self.flush()
        atexit.unregister(self._at_exit)

    def _work(self):
        while True:
            self._wake.wait()
            self._closed.wait(SEND_EVERY_SECONDS)
            self._wake.clear()
            try:
                with self._sending:
                    if self._closed.is_set():
                        return  # the closer sends the rest, and may have closed the file already
                    self._send()
            except RunyardError:
                self._failed()
                self._closed.wait(_REST_AFTER_FAILURE_SECONDS)
                self._wake.set()

    def _at_exit(self):
        try:
            self.flush()
        except RunyardError:
            pass  # the process is ending: nobody is left to tell
