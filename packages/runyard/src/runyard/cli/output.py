"""Output: JSON for programs, plain columns for pipes, coloured tables in a terminal; progress on stderr."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Annotated, Any, Self

import typer

Row = Sequence[str]


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--output", "-o", help="text for people, json for programs.")]


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_json_line(value: Any) -> None:
    """Print one JSON line and flush it."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def print_table(headings: Row, rows: Iterable[Row], *, nothing: str) -> None:
    """Print rows. Columns in a pipe are never cut, for `awk` and `grep`. Without rows, `nothing` goes to stderr."""
    body = [[_on_one_line(cell) for cell in row] for row in rows]
    if not body:
        print(nothing, file=sys.stderr)
    elif sys.stdout.isatty():
        _print_rich(headings, body)
    else:
        _print_columns([[heading.upper().replace(" ", "_") for heading in headings], *body])


def print_fields(fields: Mapping[str, str]) -> None:
    """Print `name  value` lines, without empty values."""
    filled = {name: value for name, value in fields.items() if value}
    width = max(map(len, filled), default=0)
    for name, value in filled.items():
        print(f"{name.ljust(width)}  {_on_one_line(value)}")


def print_heading(text: str) -> None:
    print(f"\n{text}")


def _on_one_line(text: str) -> str:
    """Escape control characters, which could move the cursor or end the line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _print_columns(rows: Sequence[Row]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_rich(headings: Row, rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)


_STYLES = {
    "Completed": "green",
    "Failed": "red",
    "Canceled": "yellow",
    "Running": "cyan",
    "missing": "red",
    "ok": "green",
}

_REDRAW_SECONDS = 0.1


class ProgressLine:
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
