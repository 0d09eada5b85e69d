"""What a request says about ranks."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from runyard.errors import InvalidArgument
from runyard.model.names import check_relative_path

ALL = "all"
Offsets = Annotated[Sequence[str], Query(alias="from")]


def wanted_rank(given: str) -> int | None:
    """None for all of them."""
    if given == ALL:
        return None
    if not given.isdecimal() or not given.isascii():
        raise InvalidArgument(f"ranks must be {ALL!r} or the number of one rank, got {given!r}.")
    return int(given)


def offsets_of(given: Sequence[str]) -> dict[str, int]:
    """How far each log was read before, from `OFFSET~PATH`."""
    found = {}
    for one in given:
        offset, _, path = one.partition("~")
        if not offset.isdecimal() or not offset.isascii():
            raise InvalidArgument(f"from must look like OFFSET~PATH, got {one!r}.")
        found[check_relative_path(path, "log path")] = int(offset)
    return found
