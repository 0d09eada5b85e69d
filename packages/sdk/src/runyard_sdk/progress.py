"""Progress of uploads and downloads: a live bar in a terminal or notebook, occasional lines elsewhere."""

import os
import sys
import time

_UNITS = ("B", "KB", "MB", "GB", "TB")
_WIDTH = 24


class Progress:
    """Progress of a transfer, as a context manager; thread-safe.

    Short transfers show nothing, and errors of the display never reach the caller.
    """

    def __init__(self, title, files=0, size=None, is_shown=True):
        import threading

        self.title, self.files, self.size = title, files, size
        self.files_done, self.bytes_done = 0, 0
        self.started = time.monotonic()
        self._lock = threading.Lock()
        self._display = _display() if is_shown else None
        self._next = self.started + (self._display.first_after if self._display else 0)

    def add_bytes(self, count):
        """Add so many bytes; negative when a transfer starts again."""
        with self._lock:
            self.bytes_done += count
            self._show()

    def file_done(self):
        with self._lock:
            self.files_done += 1
            self._show()

    def print_line(self, text):
        """Print a line on stdout, above the bar if there is one."""
        with self._lock:
            self._try("clear")
            print(text)

    @property
    def line(self):
        """State as text: '3 of 10 files, 1.2 of 4.0 GB, 120.0 MB/s'."""
        parts = ["{} of {} files".format(self.files_done, self.files)] if self.files else []
        if self.size:
            parts.append("{} of {}".format(readable_size(self.bytes_done), readable_size(self.size)))
        elif self.bytes_done:
            parts.append(readable_size(self.bytes_done))
        seconds = time.monotonic() - self.started
        if self.bytes_done and seconds > 0:
            parts.append(readable_size(self.bytes_done / seconds) + "/s")
        return ", ".join(parts)

    @property
    def share(self):
        """Fraction done, from 0 to 1."""
        done, whole = (self.bytes_done, self.size) if self.size else (self.files_done, self.files)
        return min(1.0, max(0.0, done / float(whole))) if whole else 0.0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with self._lock:
            self._try("end", self)

    def _show(self):
        if self._display is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._display.every
            self._try("draw", self)

    def _try(self, what, *arguments):
        try:
            if self._display is not None:
                getattr(self._display, what)(*arguments)
        except Exception:  # a closed terminal or a broken front end must not end a transfer
            self._display = None


class _Terminal:
    """One line on stderr that is overwritten."""

    first_after, every = 0.3, 0.1

    def __init__(self):
        self._is_drawn = False

    def draw(self, progress):
        import shutil

        filled = int(progress.share * _WIDTH)
        text = "{} {:3.0f}% [{}{}] {}".format(progress.title, progress.share * 100, "#" * filled,
                                              "." * (_WIDTH - filled), progress.line)
        sys.stderr.write("\r\x1b[K" + text[:shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()
        self._is_drawn = True

    def clear(self):
        if self._is_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_drawn = False

    def end(self, progress):
        self.clear()


class _Notebook:
    """A bar below the cell, updated in place."""

    first_after, every = 0.3, 0.25

    def __init__(self):
        self._shown = None

    def draw(self, progress):
        from IPython.display import HTML, display

        bar = HTML("<div>{} <progress value='{:.4f}' max='1'></progress> {}</div>".format(
            _escaped(progress.title), progress.share, progress.line))
        if self._shown is None:
            self._shown = display(bar, display_id=True)
        else:
            self._shown.update(bar)

    def clear(self):
        """Do nothing: lines appear above the bar."""

    def end(self, progress):
        if self._shown is not None:
            self.draw(progress)


class _Lines:
    """A line on stderr every ten seconds, for logs."""

    first_after, every = 10, 10

    def draw(self, progress):
        sys.stderr.write("{}: {}\n".format(progress.title, progress.line))
        sys.stderr.flush()

    def clear(self):
        """Do nothing: its lines stay."""

    def end(self, progress):
        """Do nothing: the caller prints the last line."""


def readable_size(count):
    """1536 as '1.5 KB'."""
    size, unit = float(count), 0
    while size >= 999.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return "{:.1f} {}".format(size, _UNITS[unit]) if unit else "{:.0f} B".format(size)


def _display():
    if _is_kernel():
        return _Notebook()
    try:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            return _Terminal()
    except (AttributeError, ValueError):  # stderr may be closed, or not be a real terminal
        return None
    return _Lines()


def _is_kernel():
    """Whether this is a notebook kernel; never imports IPython."""
    shell = sys.modules.get("IPython")
    try:
        return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None
    except Exception:  # IPython is only partly imported
        return False


def _escaped(text):
    from html import escape

    return escape(text)
