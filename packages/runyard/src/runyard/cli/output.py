"""Output: JSON for programs, plain columns for pipes, coloured tables in a terminal; progress on stderr."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

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
