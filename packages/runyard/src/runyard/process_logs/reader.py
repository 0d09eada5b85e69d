"""Reads log files while processes write and rotate them."""

import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from runyard.process_logs.lines import LEVELS
from runyard.process_logs.output import COUNT, rotated_path
from runyard.process_logs.setup import log_file

Line = dict[str, Any]
NAMES = ("service", "agent", "gateway", "access")


class ProcessLogTail:
    """Lines of one log: existing ones, oldest first, then new ones."""

    def __init__(self, home: Path, name: str) -> None:
        self._path, self._name = log_file(home, name), name
        self._file = self._opened()
        self._unread = b""

    def earlier(self) -> Iterator[Line]:
        """Lines of the rotated files."""
        for number in range(COUNT - 1, 0, -1):
            try:
                with rotated_path(self._path, number).open("rb") as file:
                    yield from map(self._line, file)
            except FileNotFoundError:
                continue

    def fresh(self) -> Iterator[Line]:
        """Lines added to the current file since the last call, across rotations."""
        while True:
            if self._file is None:
                self._file = self._opened()
                if self._file is None:
                    return
            yield from self._whole_lines(self._file.read())
            if self._is_current():
                return
            yield from self._whole_lines(self._file.read() + b"\n" * bool(self._unread))
            self._file.close()
            self._file = None

    def _whole_lines(self, data: bytes) -> Iterator[Line]:
        *lines, self._unread = (self._unread + data).split(b"\n")
        yield from map(self._line, filter(None, lines))

    def _opened(self) -> Any:
        try:
            return self._path.open("rb", buffering=0)
        except FileNotFoundError:
            return None

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:
            return True

    def _line(self, data: bytes) -> Line:
        """Parse a line. A line that a full disk cut off becomes the message."""
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        return {"component": self._name, "level": "error", "message": data.decode("utf-8", "replace").strip()}


def merge_tails(tails: Sequence[ProcessLogTail]) -> Iterator[Line]:
    """All existing lines of the logs, by time."""
    return heapq.merge(*map(_whole, tails), key=lambda line: str(line.get("time", "")))


def filter_lines(lines: Iterable[Line], *, level: str = "debug", run: str | None = None) -> Iterator[Line]:
    """Lines of at least this level, and of this run if one is given."""
    least = LEVELS.index(level)
    for line in lines:
        rank = LEVELS.index(line["level"]) if line.get("level") in LEVELS else len(LEVELS)
        if rank >= least and (run is None or line.get("run") == run):
            yield line


def _whole(tail: ProcessLogTail) -> Iterator[Line]:
    yield from tail.earlier()
    yield from tail.fresh()
