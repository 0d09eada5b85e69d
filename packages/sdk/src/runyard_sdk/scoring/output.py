import io
import os
import sys


def open_log_streams():
    """Make stdout and stderr line-buffered UTF-8, whatever the locale."""
    sys.stdout = _stream(1)
    sys.stderr = _stream(2)


def flush_output():
    """Flush incomplete lines too. Ignores errors of objects that the script has put there."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass


class _Log(io.RawIOBase):
    """File descriptor that ignores errors: a full disk loses log lines, not answers."""

    def __init__(self, fd):
        super(_Log, self).__init__()
        self._fd = fd

    def write(self, data):
        try:
            return os.write(self._fd, data)
        except OSError:
            return len(data)

    def fileno(self):
        return self._fd

    def writable(self):
        return True


def _stream(fd):
    return io.TextIOWrapper(io.BufferedWriter(_Log(fd)), encoding="utf-8", errors="backslashreplace",
                            line_buffering=True)
