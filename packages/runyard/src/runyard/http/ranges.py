import re

_ONE_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


class Unsatisfiable(Exception):
    """The range begins past the end of the file."""


def asked_part(header: str | None, size: int) -> tuple[int, int] | None:
    """(start, length) of a Range header; None for the whole file, also for several ranges or an invalid header.

    Raises Unsatisfiable.
    """
    found = _ONE_RANGE.fullmatch((header or "").strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    if not first:
        length = min(int(last), size)
        start, end = size - length, size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    if start >= size or start >= end:
        raise Unsatisfiable
    return start, end - start
