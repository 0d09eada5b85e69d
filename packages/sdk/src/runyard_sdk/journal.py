"""Journal of a run: lines that are appended without waiting.

docs/wire.md, section Journal, has the line formats. Lines go to a file that the node's supervisor reads as it grows
(`FileJournal`), to a file that this process sends itself, or to memory where the service is on another machine (both in
`runyard_sdk.interactive`).

On a full disk lines stay in memory: counted, and saved when the process ends. For that the supervisor holds files
`.room-N` in the journals folder whose blocks are allocated; a process that ends takes one, fills it and renames it to a
journal. An empty file `waiting-RANK-PID-RANDOM` exists while lines wait in memory; `lost-COUNT-...` says how many were
lost. `full-RANK-PID-RANDOM` is left by a process that a full disk ended, whose traceback may be missing too.
"""

import errno
import json
import os
import sys
import time
from collections import deque
from json.encoder import encode_basestring_ascii as _quote

KEPT_LINES = 10000
_now = time.time
_getpid = os.getpid
_write = os.write
_ROOM = ".room-"
_LONGEST_COUNT_LINE = 40
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """Writes lines. A subclass implements `_append(line: bytes)`, which must not raise OSError."""

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
        """Set a tag; `value` None removes it."""
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

    Failed writes are kept, `KEPT_LINES` at most, and retried with the next one; dropped lines are counted, and the
    count is written later. In a `supervised` folder the supervisor is told while lines are kept, and `finish` saves
    them.
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
        """Try to write the kept lines; True when none is left."""
        if self._pid != _getpid():
            return True
        with self._lock:
            return self._write_kept()

    def finish(self):
        """Save or count what cannot be written, at the end of the process. Later lines are handled one by one."""
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
        """Open the file of this process, once. Lines that a parent kept are written by the parent."""
        # A lock that another thread held at the fork is never released in the child.
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
        """Keep a line that could not be written: losing a point is bad, losing a week of training is worse."""
        with self._lock:
            if len(self._kept) >= KEPT_LINES:
                self._kept.popleft()
                self._dropped += 1
            self._kept.append(line)
            self._write_or_wait()

    def _finish(self, line, written):
        """Write the rest of a partial line first: a disk that fills may take half a line."""
        with self._lock:
            self._tear(line, written)
            self._write_or_wait()

    def _write_or_wait(self):
        if self._write_kept() or not self._supervised:
            return
        if self._is_ending:
            self._save_kept()
        elif self._waiting is None:
            self._waiting = WaitingLines(self._folder, self._rank)

    def _save_kept(self):
        """Save the kept lines. A partial line is never read, because it has no end."""
        lines, dropped = list(self._kept), self._dropped
        if self._torn and self._torn_points == 1:
            lines.insert(0, self._torn_line)
        elif self._torn:
            dropped += self._torn_points
        waiting = self._waiting or WaitingLines(self._folder, self._rank)
        lost = save_waiting_lines(self._folder, self._new_name(), lines, dropped)
        if lost:
            waiting.lose(lost)
        else:
            waiting.end()
        # Nothing may follow a partial line.
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


class WaitingLines:
    """Files that tell the supervisor that a process has lines in memory."""

    def __init__(self, folder, rank):
        self._folder, self._name = folder, _waiting_file_name(rank)
        _make_file(self._path("waiting"))

    def end(self):
        """All lines have been written or saved."""
        try:
            os.remove(self._path("waiting"))
        except OSError:
            pass

    def lose(self, count):
        """Record that so many lines are lost."""
        path = self._path("lost-{}".format(count))
        try:
            os.rename(self._path("waiting"), path)
        except OSError:
            if not _make_file(path):
                sys.stderr.write("Runyard: {} logged points were lost: the disk is full.\n".format(count))

    def _path(self, what):
        return os.path.join(self._folder, "{}-{}".format(what, self._name))


def note_cause(folder, rank):
    """At process exit: record whether a full disk caused the exception that ended it, if any."""
    error, seen = getattr(sys, "last_value", None), set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in _FULL:
            _make_file(os.path.join(folder, "full-" + _waiting_file_name(rank)))
            return
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def save_waiting_lines(folder, journal_name, lines, dropped):
    """Write lines into a room file of the supervisor and rename it to a journal. Return how many lines are lost,
    including `dropped`, unless the journal says it."""
    taken = _take_room(folder)
    if taken is None:
        return len(lines) + dropped
    descriptor, path = taken
    try:
        content = _fitting(lines, dropped, os.fstat(descriptor).st_size)
        written = 0
        while written < len(content):
            written += os.pwrite(descriptor, content[written:], written)
        os.ftruncate(descriptor, written)
        os.rename(path, os.path.join(folder, journal_name))
    except OSError:
        return len(lines) + dropped
    finally:
        os.close(descriptor)
    return 0


def _take_room(folder):
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith(_ROOM))
    except OSError:
        return None
    for name in names:
        path = os.path.join(folder, ".taken-" + os.urandom(8).hex())
        try:
            os.rename(os.path.join(folder, name), path)  # only one process gets it
            return os.open(path, os.O_WRONLY | os.O_CLOEXEC), path
        except OSError:
            continue
    return None


def _fitting(lines, dropped, size):
    left, fitting = size - _LONGEST_COUNT_LINE, []
    for line in lines:
        if len(line) > left:
            break
        left -= len(line)
        fitting.append(line)
    lost = dropped + len(lines) - len(fitting)
    if lost:
        fitting.append(json.dumps(["drop", lost]).encode("ascii") + b"\n")
    return b"".join(fitting)


def _waiting_file_name(rank):
    return "{}-{}-{}".format(rank, os.getpid(), os.urandom(4).hex())


def _make_file(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True
