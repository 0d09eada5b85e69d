"""Types and parsers of path and query parameters. Integers are limited to what files and databases hold."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from starlette.convertors import Convertor, register_url_convertor

from runyard.core.errors import InvalidArgument
from runyard.core.names import check_relative_path
from runyard.core.records.runs import RunStatus

_MAX_DIGITS = 18
_MAX_INTEGER = 10**_MAX_DIGITS - 1

QueryInt = Annotated[int, Query(ge=-_MAX_INTEGER, le=_MAX_INTEGER)]
QueryCount = Annotated[int, Query(ge=0, le=_MAX_INTEGER)]
PageSize = Annotated[int, Query(ge=1, le=10_000)]


def parse_count(text: str, expected: str) -> int:
    """Raise InvalidArgument that begins with `expected` where the text is no count."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise InvalidArgument(f"{expected}, got {ascii(text)[:80]}.")
    return int(text)


ALL_RANKS = "all"
LogOffsets = Annotated[Sequence[str], Query(alias="from")]


def parse_rank(given: str) -> int | None:
    """The rank, or None for all ranks. Raises InvalidArgument."""
    if given == ALL_RANKS:
        return None
    return parse_count(given, f"ranks must be {ALL_RANKS!r} or the number of one rank")


def parse_offsets(given: Sequence[str]) -> dict[str, int]:
    """Offsets by log path, from `OFFSET~PATH` entries. Raises InvalidArgument."""
    found = {}
    for one in given:
        offset, _, path = one.partition("~")
        read = parse_count(offset, "from must look like OFFSET~PATH with a number of bytes")
        found[check_relative_path(path, "log path")] = read
    return found


def parse_status(word: str) -> RunStatus:
    """Raise InvalidArgument that lists the known statuses."""
    try:
        return RunStatus(word)
    except ValueError:
        known = ", ".join(status.value for status in RunStatus)
        raise InvalidArgument(f"There is no status {word!r}. Known: {known}.") from None


class _AnyPath(Convertor[str]):
    """Like Starlette's "path" converter, but matches line ends too: file names may hold them."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _AnyPath())
PATH = "{path:any}"
"""Last part of a route that ends in a file path."""
