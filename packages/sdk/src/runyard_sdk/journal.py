"""What a run says about itself, as lines that are appended and never wait for anyone.

docs/wire.md, section Journal, has the line formats. Three places to append to: a file that the node's supervisor
reads as it grows (`FileJournal`), one that this process sends itself (`runyard_sdk.interactive`), and a buffer in
memory where the service is on another machine (`runyard_sdk.outbox`).
"""

import json
import os
import time
from collections import deque
from json.encoder import encode_basestring_ascii as _quote

KEPT_LINES = 10000
_now = time.time
_getpid = os.getpid
_write = os.write


class Journal:
    """The lines. A subclass says where they go, in `_append(line: bytes)`, which must not raise OSError."""

    def __init__(self):
        self._starts = {}

    def scalar(self, name, value, step=None):
        kind = type(value)
        if (kind is float and value - value == 0.0) or kind is int:
            start = self._starts.get(name)
            if start is None:
                start = self._starts[name] = '["m",%s,' % _quote(name)
            if step is None:
                line = "%s%r,null,%.6f]\n" % (start, value, _now())
            else:
                line = "%s%r,%d,%.6f]\n" % (start, value, int(step), _now())
            self._append(line.encode())
        else:
            self._line(["m", name, value, None if step is None else int(step), _now()])

    def values(self, name, values):
        self._line(["l", name, values, _now()])

    def row(self, name, columns):
        self._line(["r", name, columns, _now()])

    def table(self, name, columns):
        self._line(["t", name, columns, _now()])

    def image(self, name, artifact_path):
        self._line(["i", name, artifact_path, _now()])

    def tag(self, key, value):
        """A tag; `value` None removes it."""
        self._line(["tag", key, value])

    def prop(self, key, value):
        self._line(["prop", key, value])

    def error(self, code, message):
        self._line(["err", {"code": code, "message": message}])

    def display_name(self, name):
        self._line(["name", name])

    def _line(self, items):
        self._append(json.dumps(items).encode("ascii") + b"\n")

    def _append(self, line):
        raise NotImplementedError


class FileJournal(Journal):
    """One file per process; a forked child opens its own.

    A write that fails is kept and tried again with the next one, `KEPT_LINES` at most; what had to be dropped
    is counted, and said in the journal once it can be written again.
    """

    def __init__(self, folder, run_id, rank="0"):
        import threading

        super().__init__()
        self._folder, self._run_id, self._rank = folder, run_id, rank
        self._pid = self._fd = None
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._kept, self._torn, self._dropped = deque(), b"", 0

    def retry(self):
        """Try to write what is kept; True when nothing is left."""
        if self._pid != _getpid():
            return True
        with self._lock:
            return self._write_kept()

    def _append(self, line):
        if self._pid != _getpid():
            self._open()
        if self._kept or self._torn or self._fd is None:
            self._keep(line)
            return
        try:
            written = _write(self._fd, line)
        except OSError:
            self._keep(line)
            return
        if written != len(line):
            self._finish(line[written:])

    def _open(self):
        """Begin a file of this process, once. Lines a parent kept are the parent's to write."""
        # A lock that another thread held at the fork is never given back in the child.
        is_ours = self._opening.acquire(timeout=1)
        try:
            if self._pid != _getpid():
                self._begin()
                self._pid = _getpid()
        finally:
            if is_ours:
                self._opening.release()

    def _begin(self):
        import threading

        self._lock = threading.Lock()
        self._kept, self._torn, self._dropped = deque(), b"", 0
        self._try_open()

    def _try_open(self):
        name = "{}~{}-{}-{}.jsonl".format(self._run_id, self._rank, _getpid(), os.urandom(4).hex())
        try:
            self._fd = self._new_file(name)
        except OSError:
            self._fd = None

    def _new_file(self, name):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(os.path.join(self._folder, name), flags, 0o600)

    def _keep(self, line):
        """Losing a point is bad; losing a week of training is worse."""
        with self._lock:
            if len(self._kept) >= KEPT_LINES:
                self._kept.popleft()
                self._dropped += 1
            self._kept.append(line)
            self._write_kept()

    def _finish(self, rest):
        """A disk that fills may take half a line: the rest must come before any other line."""
        with self._lock:
            self._torn += rest
            self._write_kept()

    def _write_kept(self):
        if self._fd is None:
            self._try_open()
            if self._fd is None:
                return False
        try:
            while self._torn:
                self._torn = self._torn[os.write(self._fd, self._torn):]
            while self._kept:
                self._write_first()
            if self._dropped:
                line = json.dumps(["drop", self._dropped]).encode("ascii") + b"\n"
                self._dropped, self._torn = 0, line
                self._torn = line[os.write(self._fd, line):]
        except OSError:
            return False
        return not self._torn

    def _write_first(self):
        line = self._kept[0]
        written = os.write(self._fd, line)
        self._kept.popleft()
        self._torn = line[written:]
        while self._torn:
            self._torn = self._torn[os.write(self._fd, self._torn):]
