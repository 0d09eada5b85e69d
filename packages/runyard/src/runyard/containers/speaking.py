"""An engine's words, as the lines of a log that stays of a bearable size whatever a build prints, and holds no
password of an address."""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from typing import Any

from runyard.planning.passwords import hidden

Say = Callable[[str], None]
LONGEST_LINE = 4096
LOG_BYTES = 8 << 20
LAST_LINES = 200
_EVENT_BYTES = 4 << 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Lines:
    """Takes text in any pieces and says its lines: the first 8 MiB, then the last ones when it is closed."""

    def __init__(self, say: Say, limit: int = LOG_BYTES) -> None:
        self._say, self._left = say, limit
        self._begun = ""
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._unsaid = 0

    def take(self, piece: bytes) -> None:
        self.write(piece.decode(errors="replace"))

    def write(self, text: str) -> None:
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._line(self._shortened(line))
        self._begun = self._shortened(self._begun)

    def close(self) -> None:
        if self._begun:
            self._line(self._begun)
            self._begun = ""
        left_out = self._unsaid - len(self._last)
        if left_out > 0:
            self._say(f"[{left_out} lines are left out here]")
        while self._last:
            self._say(self._last.popleft())

    def _shortened(self, line: str) -> str:
        """Say all that is too long for one line, and give the rest."""
        while len(line) > LONGEST_LINE:
            self._line(line[:LONGEST_LINE])
            line = line[LONGEST_LINE:]
        return line

    def _line(self, line: str) -> None:
        shown = hidden(_COLOURS.sub("", line).rstrip("\r"))
        if self._left > 0:
            self._left -= len(shown) + 1
            self._say(shown)
        else:
            self._unsaid += 1
            self._last.append(shown)


def events(answer: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The JSON lines of a pull or build, as they come. One that is longer than any should be is left out."""
    while line := answer.readline(_EVENT_BYTES):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def error_of(event: dict[str, Any]) -> str:
    detail = event.get("errorDetail") or {}
    return str(event.get("error") or detail.get("message") or "")


class PullProgress:
    """One line for each step of each layer: the bars that a terminal would draw over are left out."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._said: set[tuple[str, str]] = set()

    def tell(self, event: dict[str, Any]) -> None:
        step = (str(event.get("id", "")), str(event.get("status") or event.get("stream") or "").strip())
        if step[1] and step not in self._said:
            self._said.add(step)
            self._say(hidden(": ".join(part for part in step if part)))
