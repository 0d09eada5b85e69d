"""Types and parsers of path and query parameters. Integers are limited to what files and databases hold."""

from typing import Annotated

from fastapi import Query

from runyard.errors import InvalidArgument

_MOST_DIGITS = 18
_MOST = 10**_MOST_DIGITS - 1

Whole = Annotated[int, Query(ge=-_MOST, le=_MOST)]
Counting = Annotated[int, Query(ge=0, le=_MOST)]
PageSize = Annotated[int, Query(ge=1, le=10_000)]


def counting_number(text: str, expected: str) -> int:
    """Raise InvalidArgument that begins with `expected` where the text is no count."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise InvalidArgument(f"{expected}, got {ascii(text)[:80]}.")
    return int(text)
