"""Statistics of a database: response time, size, and runs by status."""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, false, func, select, text, true

from runyard.core.errors import StandingBy
from runyard.core.records.runs import RunEvent, RunId, RunStatus
from runyard.storage.sql.database import Database
from runyard.storage.sql.schema import run_events, runs, service_lease

_EPOCH = select(service_lease.c.epoch).where(service_lease.c.key == 1)
_OPEN = (
    select(runs.c.status, runs.c.workspace, runs.c.target, func.count(), func.min(runs.c.created_at))
    .where(runs.c.finished == false())
    .group_by(runs.c.status, runs.c.workspace, runs.c.target)
)
_ENDED = select(runs.c.status, func.count()).where(runs.c.finished == true()).group_by(runs.c.status)
_STATUSES = (
    select(runs.c.id, *run_events.c["at", "kind", "text"])
    .join_from(run_events, runs, run_events.c.run == runs.c.sequence)
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)), run_events.c.kind == "status")
    .order_by(run_events.c.key)
)
_IDS_AT_ONCE = 500


@dataclass(frozen=True)
class QueueLength:
    """Runs that wait for a compute target."""

    workspace: str
    compute: str
    length: int
    oldest: datetime
    """Submit time of the oldest run."""


@dataclass(frozen=True)
class RunTally:
    by_status: Mapping[str, int]
    queues: Sequence[QueueLength]


def ping(database: Database) -> float:
    """Response time in seconds. Raises RunyardError, and StandingBy if another service holds the lease."""
    began = time.perf_counter()
    with database.read() as connection:
        epoch = connection.execute(_EPOCH).scalar()
    if database.fence.epoch is not None and epoch != database.fence.epoch:
        raise StandingBy("Another service holds the database.")
    return time.perf_counter() - began


def count_runs(database: Database) -> RunTally:
    """Count the runs of all workspaces; every status has an entry."""
    with database.read() as connection:
        unfinished = connection.execute(_OPEN).all()
        ended = connection.execute(_ENDED).all()
    by_status = Counter({status.value: 0 for status in RunStatus})
    for status, *_, count, _ in unfinished:
        by_status[status] += count
    for status, count in ended:
        by_status[status] += count
    waiting = [QueueLength(*row[1:]) for row in unfinished if row[0] == RunStatus.QUEUED.value]
    return RunTally(by_status, sorted(waiting, key=lambda queue: -queue.length))


def database_bytes(database: Database) -> int:
    if not database.is_sqlite:
        with database.read() as connection:
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
    file = str(database.engine.url.database)
    found = os.path.getsize(file)
    try:
        return found + os.path.getsize(f"{file}-wal")
    except FileNotFoundError:  # removed with the last connection
        return found


def status_events(database: Database, run_ids: Sequence[RunId]) -> Mapping[RunId, Sequence[RunEvent]]:
    """Status events of these runs, in order; no entry for a deleted run."""
    found: dict[RunId, list[RunEvent]] = {}
    with database.read() as connection:
        for start in range(0, len(run_ids), _IDS_AT_ONCE):
            piece = run_ids[start : start + _IDS_AT_ONCE]
            for run_id, *event in connection.execute(_STATUSES, {"run_ids": list(piece)}):
                found.setdefault(run_id, []).append(RunEvent(*event))
    return found
