import os
from collections import deque

from runyard_sdk.errors import Conflict
from runyard_sdk.journal import KEPT_LINES, Journal
from runyard_sdk.sending import Sender

PIECE_BYTES = 4 << 20


class Outbox(Journal):
    """A journal in memory that is sent to a service elsewhere, for runs that no supervisor watches.

    `append` never waits. `flush` returns once all that was appended before it is stored. While the service does
    not answer, the newest `KEPT_LINES` lines are kept. A forked child has a journal of its own.
    """

    def __init__(self, client, run_id, rank="0"):
        super().__init__()
        self._client, self._run_id, self._rank = client, run_id, rank
        self._pid = None

    def flush(self):
        """Send everything now. Raises the service's error where that fails."""
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
    """Have the service store lines that begin at byte `offset` of a journal; up to where it is stored then.

    A service that has less than `offset` raises Conflict, whose `facts["offset"]` says how far it is.
    """
    from runyard_sdk.client import quoted

    path = "/runs/{}/journals/{}".format(quoted(run_id), quoted(journal))
    return client.post_bytes(path, lines, offset=offset)["offset"]
