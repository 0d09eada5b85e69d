import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_REDRAW_SECONDS = 0.1


class Progress:
    """Progress of a long command on stderr: one redrawn line in a terminal, elsewhere a line per step."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._in_terminal = quiet, sys.stderr.isatty()
        self._what, self._drawn_at, self._is_drawn = "", 0.0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show(self, what: str, done: int, total: int) -> None:
        """Show the progress of a step; `total` is 0 where it is unknown."""
        if self._quiet:
            return
        if self._in_terminal:
            self._draw(what, done, total)
        elif what != self._what:
            print(f"{what} ...", file=sys.stderr, flush=True)
        self._what = what

    def counter(self, what: str) -> Callable[[int], None]:
        """Callback that adds up what it is called with and shows the sum."""
        total = 0

        def count(more: int) -> None:
            nonlocal total
            total += more
            self.show(what, total, 0)

        return count

    def _draw(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what == self._what and now - self._drawn_at < _REDRAW_SECONDS:
            return
        count = f" {done:,} of {total:,}" if total else f" {done:,}" if done else ""
        print(f"\r\033[K{what}{count} ...", end="", file=sys.stderr, flush=True)
        self._drawn_at, self._is_drawn = now, True
