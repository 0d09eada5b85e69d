"""Lines that a run's process could not write because the disk is full: counted, and saved when it ends.

The supervisor holds room for them, files `.room-N` in the journals folder that already have their blocks. A process
that ends takes one for its own, fills it and gives it a journal's name. An empty file `waiting-RANK-PID-RANDOM` is there
while lines wait in memory; `lost-COUNT-...` tells how many of them were lost. `full-RANK-PID-RANDOM` is left by a process
that a full disk ended: its traceback may have found no room either.
"""

import errno
import json
import os
import sys

_ROOM = ".room-"
_LONGEST_COUNT_LINE = 40
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Waiting:
    """Says on the disk that a process has lines in memory."""

    def __init__(self, folder, rank):
        self._folder, self._name = folder, _name(rank)
        _make(self._path("waiting"))

    def end(self):
        """All of them have been written or saved."""
        try:
            os.remove(self._path("waiting"))
        except OSError:
            pass

    def lose(self, count):
        """That many are lost."""
        path = self._path("lost-{}".format(count))
        try:
            os.rename(self._path("waiting"), path)
        except OSError:
            if not _make(path):
                sys.stderr.write("Runyard: {} logged points were lost: the disk is full.\n".format(count))

    def _path(self, what):
        return os.path.join(self._folder, "{}-{}".format(what, self._name))


def note_cause(folder, rank):
    """At the end of a process: say whether the exception that ended it, if any, came from a full disk."""
    error, seen = getattr(sys, "last_value", None), set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in _FULL:
            _make(os.path.join(folder, "full-" + _name(rank)))
            return
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def save(folder, journal_name, lines, dropped):
    """Put lines into room that the supervisor holds, as a journal of that name. The number of those that are lost,
    with `dropped` that were before, unless the journal tells it."""
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
            os.rename(os.path.join(folder, name), path)  # one process wins
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


def _name(rank):
    return "{}-{}-{}".format(rank, os.getpid(), os.urandom(4).hex())


def _make(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True
