"""Reads what is left of a damaged database: rows on damaged pages are skipped and named.

`rebuild_sqlite` makes a new database of the readable rows.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DatabaseError

from runyard.stores.schema import metrics, run_details, run_events, runs

_Row = TypeVar("_Row")
_SIGNS = ("malformed", "not a database", "invalid page", "corrupt", "could not read block", "could not open file")
_log = logging.getLogger(__name__)


def is_damage(error: Exception) -> bool:
    """True if the error means damaged data: a bad page, or text that cannot be decoded."""
    if isinstance(error, DatabaseError):
        return any(sign in str(error.orig) for sign in _SIGNS)
    return isinstance(error, (ValueError, KeyError, TypeError))


def readable_between(
    low: int, high: int, read: Callable[[int, int], Sequence[_Row]], *, limit: int | None = None
) -> tuple[list[_Row], list[int]]:
    """Rows with keys low..high, highest first, and the keys that cannot be read.

    `read` returns the rows of a range. A range that fails is halved down to single keys. Stops at `limit` rows.
    """
    rows: list[_Row] = []
    bad: list[int] = []
    waiting = [(low, high)]
    while waiting and (limit is None or len(rows) < limit):
        start, end = waiting.pop()
        if start > end:
            continue
        try:
            rows += read(start, end)
        except (DatabaseError, ValueError, KeyError, TypeError) as error:
            if not is_damage(error):
                raise
            if start == end:
                bad.append(start)
                continue
            middle = (start + end) // 2
            waiting += [(start, middle), (middle + 1, end)]
    return rows[:limit] if limit is not None else rows, bad


def last_run_key(connection: Connection) -> int:
    """Highest key of a run in any readable table."""
    found = 0
    for column in (runs.c.sequence, run_details.c.run, run_events.c.run, metrics.c.run):
        try:
            found = max(found, connection.execute(select(func.max(column))).scalar() or 0)
        except DatabaseError as error:
            if not is_damage(error):
                raise
    return found


def warn_damaged_runs(keys: Sequence[int]) -> None:
    if keys:
        _log.error(
            "%d runs cannot be read from the database and were left out of a listing (rows %s). Run: runyard check",
            len(keys),
            ", ".join(map(str, sorted(keys)[:20])),
        )
