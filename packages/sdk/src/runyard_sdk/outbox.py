import os
from collections import deque

from runyard_sdk.errors import Conflict, RunyardError
from runyard_sdk.journal import KEPT_LINES, Journal

SEND_EVERY_SECONDS = 0.05


class Outbox(Journal):
    """A journal that a thread of this process sends to the service, for runs that no supervisor watches.

    `append` never waits. `flush` returns once all that was appended before it is stored. While the service does
    not answer, the newest `KEPT_LINES` lines are kept. A forked child has a journal of its own.
    """

    def __init__(self, client, run_id, rank="0"):
        super().__init__()
        self._client, self._run_id, self._rank = client, run_id, rank
        self._pid = None

    def flush(self, timeout_seconds=300):
        """Send everything now. Raises the service's error where that fails."""
        if self._pid == os.getpid():
            with self._sending:
                self._send()

    def close(self):
        """Send the rest and end the thread."""
        if self._pid == os.getpid():
            self._closed.set()
            self._wake.set()
            self.flush()

    def _append(self, line):
        if self._pid != os.getpid():
            self._begin()
        self._lines.append(line)
        if not self._wake.is_set():
            self._wake.set()

    def _begin(self):
        import atexit
        import threading

        self._pid = os.getpid()
        self._lines, self._unsent, self._dropped, self._offset = deque(), b"", 0, 0
        self._name = "{}~{}-{}-{}".format(self._run_id, self._rank, self._pid, os.urandom(4).hex())
        self._wake, self._closed, self._sending = threading.Event(), threading.Event(), threading.Lock()
        threading.Thread(target=self._work, name="runyard-outbox", daemon=True).start()
        atexit.register(self._at_exit)

    def _work(self):
        while not self._closed.is_set():
            self._wake.wait()
            self._closed.wait(SEND_EVERY_SECONDS)
            self._wake.clear()
            try:
                with self._sending:
                    self._send()
            except RunyardError:
                self._trim()
                self._closed.wait(1)
                self._wake.set()

    def _send(self):
        while self._lines or self._unsent:
            if not self._unsent:
                self._unsent = self._taken()
            path = "/runs/{}/journals/{}".format(self._quoted_id(), self._name)
            try:
                self._offset = self._client.post_bytes(path, self._unsent, offset=self._offset)["offset"]
            except Conflict:
                self._offset = self._client.get("/runs/{}/journals".format(self._quoted_id())).get(self._name, 0)
                raise
            self._unsent = b""

    def _taken(self):
        lines = []
        if self._dropped:
            lines.append('["drop", {}]\n'.format(self._dropped).encode("ascii"))
            self._dropped = 0
        size = 0
        while self._lines and size < 4 << 20:
            line = self._lines.popleft()
            lines.append(line)
            size += len(line)
        return b"".join(lines)

    def _trim(self):
        while len(self._lines) > KEPT_LINES:
            self._lines.popleft()
            self._dropped += 1

    def _quoted_id(self):
        from runyard_sdk.client import quoted

        return quoted(self._run_id)

    def _at_exit(self):
        try:
            self.close()
        except RunyardError:
            pass  # the process is ending: there is nobody left to tell
