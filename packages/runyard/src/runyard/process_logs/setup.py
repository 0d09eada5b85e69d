"""Configures logging of Runyard's processes; called once when a process starts."""

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from runyard.process_logs.lines import LEVELS, encode_line, format_line, format_time, log_line
from runyard.process_logs.output import RotatingFile, is_standard_error, keep_tail, write_without_blocking

LOG_FOLDER = "process-logs"
LEVEL_VARIABLE = "RUNYARD_LOG_LEVEL"
log = logging.getLogger(__name__)


def log_level(variables: Mapping[str, str] = os.environ) -> str:
    """Level in RUNYARD_LOG_LEVEL; "info" if it is not set or unknown."""
    level = variables.get(LEVEL_VARIABLE, "").strip().lower()
    return level if level in LEVELS else "info"


def log_file(home: Path, name: str) -> Path:
    return home / LOG_FOLDER / f"{name}.jsonl"


def open_log(home: Path, name: str, component: str) -> RotatingFile:
    def lost(lines: int) -> bytes:
        message = f"{lines} log lines before this one could not be written."
        facts = {"time": format_time(time.time()), "level": "warning", "component": component, "pid": os.getpid()}
        return encode_line({**facts, "message": message})

    return RotatingFile(log_file(home, name), lost)


def configure_logging(component: str, home: Path) -> None:
    """Write the log lines of this process to the component's file of the home and to standard error.

    Uncaught exceptions become log lines. A later call replaces the earlier one. If standard error is
    `HOME/COMPONENT.log`, as for processes started in the background, it gets only warnings and errors and is kept
    small.
    """
    level = log_level().upper()
    is_background = is_standard_error(home / f"{component}.log")
    to_file = _FileHandler(open_log(home, component, component), component)
    to_error = _ErrorHandler(component, is_background)
    to_error.setLevel(logging.WARNING if is_background else logging.DEBUG)
    root = logging.getLogger()
    for earlier in [one for one in root.handlers if isinstance(one, (_FileHandler, _ErrorHandler))]:
        root.removeHandler(earlier)
        earlier.close()
    root.addHandler(to_file)
    root.addHandler(to_error)
    root.setLevel(max(logging.WARNING, logging.getLevelName(level)))
    logging.getLogger("runyard").setLevel(level)
    logging.raiseExceptions = False  # a log line that cannot be written must not cause another
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def label_lines(component: str, run: str) -> None:
    """Continue logging in a forked child, to the same files, but as `component`. `run` is the default run of its
    lines."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, (_FileHandler, _ErrorHandler)):
            handler.component, handler.run = component, run


class _FileHandler(logging.Handler):
    def __init__(self, file: RotatingFile, component: str) -> None:
        super().__init__()
        self._file, self.component = file, component
        self.run: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file.write(encode_line(log_line(record, self.component, self.run)))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self._file.close()
        super().close()


class _ErrorHandler(logging.Handler):
    def __init__(self, component: str, is_own: bool) -> None:
        super().__init__()
        self.component, self.is_own = component, is_own
        self.run: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = format_line(log_line(record, self.component, self.run))
            if sys.stderr is sys.__stderr__:
                write_without_blocking(text.encode("utf-8", "backslashreplace"))
            else:  # replaced in this process, e.g. by a test
                sys.stderr.write(text)
            if self.is_own:
                keep_tail(2)
        except Exception:
            self.handleError(record)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        log.critical("Uncaught %s.", kind.__name__, exc_info=(kind, error, trace))


def _log_uncaught_in_thread(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None and not issubclass(caught.exc_type, SystemExit):
        name = caught.thread.name if caught.thread else "?"
        facts = (caught.exc_type, caught.exc_value, caught.exc_traceback)
        log.critical("Uncaught %s in thread %s.", caught.exc_type.__name__, name, exc_info=facts)
