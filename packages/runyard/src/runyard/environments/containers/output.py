"""Output of engines as log lines: bounded in size, with secrets of URLs redacted."""

import json
import re
from collections import deque
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

from runyard.core.url_secrets import redacted
from runyard.environments.programs import LONGEST_LINE, MOST_OUTPUT_BYTES, LogLine

LAST_LINES = 200
_EVENT_BYTES = 4 << 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class BoundedLog:
    """Splits text into lines and logs the first 8 MiB; `close` logs the last lines of the rest."""

    def __init__(self, log: LogLine, limit: int = MOST_OUTPUT_BYTES) -> None:
        self._log, self._left = log, limit
        self._partial = ""
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._skipped = 0

    def take(self, piece: bytes) -> None:
        self.write(piece.decode(errors="replace"))

    def write(self, text: str) -> None:
        *whole, self._partial = (self._partial + text).split("\n")
        for line in whole:
            self._line(self._shortened(line))
        self._partial = self._shortened(self._partial)

    def close(self) -> None:
        if self._partial:
            self._line(self._partial)
            self._partial = ""
        left_out = self._skipped - len(self._last)
        if left_out > 0:
            self._log(f"[{left_out} lines are left out here]")
        while self._last:
            self._log(self._last.popleft())

    def _shortened(self, line: str) -> str:
        """Log full-length pieces of a long line and return the rest."""
        while len(line) > LONGEST_LINE:
            self._line(line[:LONGEST_LINE])
            line = line[LONGEST_LINE:]
        return line

    def _line(self, line: str) -> None:
        shown = redacted(_COLOURS.sub("", line).rstrip("\r"))
        if self._left > 0:
            self._left -= len(shown) + 1
            self._log(shown)
        else:
            self._skipped += 1
            self._last.append(shown)


def engine_events(answer: HTTPResponse) -> Iterator[dict[str, Any]]:
    """JSON events of a pull or build as they arrive; lines that are too long are skipped."""
    while line := answer.readline(_EVENT_BYTES):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def event_error(event: dict[str, Any]) -> str:
    detail = event.get("errorDetail") or {}
    return str(event.get("error") or detail.get("message") or "")


class PullProgress:
    """Logs one line for each step of each layer, without progress bars."""

    def __init__(self, log: LogLine) -> None:
        self._log = log
        self._logged: set[tuple[str, str]] = set()

    def add(self, event: dict[str, Any]) -> None:
        step = (str(event.get("id", "")), str(event.get("status") or event.get("stream") or "").strip())
        if step[1] and step not in self._logged:
            self._logged.add(step)
            self._log(redacted(": ".join(part for part in step if part)))
