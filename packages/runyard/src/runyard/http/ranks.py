from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from runyard.http.numbers import counting_number
from runyard.model.names import check_relative_path

ALL = "all"
Offsets = Annotated[Sequence[str], Query(alias="from")]


def wanted_rank(given: str) -> int | None:
    """The rank, or None for all ranks. Raises InvalidArgument."""
    if given == ALL:
        return None
    return counting_number(given, f"ranks must be {ALL!r} or the number of one rank")


def offsets_of(given: Sequence[str]) -> dict[str, int]:
    """Offsets by log path, from `OFFSET~PATH` entries. Raises InvalidArgument."""
    found = {}
    for one in given:
        offset, _, path = one.partition("~")
        read = counting_number(offset, "from must look like OFFSET~PATH with a number of bytes")
        found[check_relative_path(path, "log path")] = read
    return found
