"""Runs whose script is this process, beside a service on the same machine.

`home/interactive/RUN_ID` holds a journal per process that logs to the run and a claim of the process that began it,
each locked for as long as its process lives. What lies there unlocked was left by a process that was killed: the
service stores it, and ends a run whose claim nobody holds.
"""

import os
import re

from runyard_sdk.discovery import running
from runyard_sdk.errors import Conflict, StorageFull
from runyard_sdk.home import home_folder
from runyard_sdk.journal import FileJournal
from runyard_sdk.outbox import PIECE_BYTES, Outbox, deliver
from runyard_sdk.sending import Sender

_RUN_ID = re.compile(r"[\w.-]{1,200}\Z")
_TRIES_AGAINST_REMOVAL = 5


def journal_of(client, run_id):
    """The journal for a run's lines from outside of it: a file where the service can find it, else in memory."""
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
        return None  # a disk without room for it keeps nobody from training


def folder_of(client, run_id):
    """The run's folder in the home of the service that the client speaks to; None if that is not on this machine."""
    if not _RUN_ID.match(run_id) or run_id.startswith("."):
        return None
    found = running()
    if not found or found["url"].rstrip("/") != client.transport.address or not client.shares_files:
        return None
    return os.path.join(home_folder(), "interactive", run_id)


class Claim:
    """Says that a run ends with this process, until it is released."""

    def __init__(self, folder):
        name = "owner-" + os.urandom(8).hex()
        self._folder, self._path = folder, os.path.join(folder, name)
        self._fd = _locked_file(folder, name)

    def release(self):
        """The run has ended, or never began; quiet when released already."""
        if self._fd is not None:
            _remove(self._path)
            os.close(self._fd)
            self._fd = None
            _remove_if_empty(self._folder)


class ShippedJournal(FileJournal):
    """A journal that is safe on the disk when `append` returns, and that a thread of this process sends on."""

    def __init__(self, client, folder, run_id):
        super().__init__(folder, run_id)
        self._client = client

    def flush(self):
        """Send everything now. Raises the service's error where that fails."""
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
            size *= 2  # one line longer than that
        return b""


def _locked_file(folder, name):
    """A new file to read and append to, locked before it is seen under its name. Its folder is made."""
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
        pass  # the service was first, or the disk is no longer ours: it looks again later


def _remove_if_empty(folder):
    try:
        os.rmdir(folder)
    except OSError:
        pass  # another process still logs to the run
