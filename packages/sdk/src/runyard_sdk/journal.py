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

# Not where it is needed: Python keeps the compiled file of a module, and a disk that is full would cut it off.
from runyard_sdk.full_disk import Waiting, save

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
    is counted, and said in the journal once it can be written again. In a `supervised` folder the supervisor is told
    while lines are kept, and `finish` saves them.
    """

    def __init__(self, folder, run_id, rank="0", supervised=False):
        import threading

        super().__init__()
        self._folder, self._run_id, self._rank = folder, run_id, rank
        self._pid = self._fd = None
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._supervised, self._is_ending = supervised, False
        self._forget_kept()

    def retry(self):
        """Try to write what is kept; True when nothing is left."""
        if self._pid != _getpid():
            return True
        with self._lock:
            return self._write_kept()

    def finish(self):
        """The process ends: save or count what cannot be written. Lines that come later are treated so one by one."""
        self._is_ending = True
        if not self.retry():
            with self._lock:
                self._save_kept()

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
            self._finish(line, written)

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

        self._lock, self._is_ending = threading.Lock(), False
        self._forget_kept()
        self._try_open()

    def _forget_kept(self):
        self._kept, self._dropped, self._waiting = deque(), 0, None
        self._torn, self._torn_line, self._torn_points = b"", b"", 1

    def _try_open(self):
        try:
            self._fd = self._new_file(self._new_name())
        except OSError:
            self._fd = None

    def _new_name(self):
        return "{}~{}-{}-{}.jsonl".format(self._run_id, self._rank, _getpid(), os.urandom(4).hex())

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
            self._write_or_wait()

    def _finish(self, line, written):
        """A disk that fills may take half a line: the rest must come before any other line."""
        with self._lock:
            self._tear(line, written)
            self._write_or_wait()

    def _write_or_wait(self):
        if self._write_kept() or not self._supervised:
            return
        if self._is_ending:
            self._save_kept()
        elif self._waiting is None:
            self._waiting = Waiting(self._folder, self._rank)

    def _save_kept(self):
        """The half of a line that was written is never read: it has no end."""
        lines, dropped = list(self._kept), self._dropped
        if self._torn and self._torn_points == 1:
            lines.insert(0, self._torn_line)
        elif self._torn:
            dropped += self._torn_points
        waiting = self._waiting or Waiting(self._folder, self._rank)
        lost = save(self._folder, self._new_name(), lines, dropped)
        if lost:
            waiting.lose(lost)
        else:
            waiting.end()
        # The file cannot go on after half a line.
        self._fd = None
        self._forget_kept()

    def _write_kept(self):
        if self._fd is None:
            self._try_open()
            if self._fd is None:
                return False
        try:
            self._write_torn()
            while self._kept:
                line = self._kept[0]
                written = os.write(self._fd, line)
                self._kept.popleft()
                self._tear(line, written)
                self._write_torn()
            if self._dropped:
                line, points = json.dumps(["drop", self._dropped]).encode("ascii") + b"\n", self._dropped
                self._dropped = 0
                self._tear(line, 0, points)
                self._write_torn()
        except OSError:
            return False
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None
        return True

    def _tear(self, line, written, points=1):
        self._torn, self._torn_line, self._torn_points = line[written:], line, points

    def _write_torn(self):
        while self._torn:
            self._torn = self._torn[os.write(self._fd, self._torn):]
