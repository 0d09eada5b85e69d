import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from runyard.errors import InvalidArgument, RunyardError, StorageFull

_BUSY_SECONDS = 30


class Turn(Protocol):
    def __enter__(self) -> Any: ...

    def __exit__(self, *reason: Any) -> Any: ...


@dataclass(frozen=True)
class Database:
    """One open database, safe to share between threads.

    `read()` and `write()` give a connection inside a transaction that is committed at the end of the block.
    On SQLite a write takes the one write lock at once, so what it reads before it writes stays true.
    """

    engine: Engine
    now: Callable[[], datetime]
    # Threads of this process queue here instead of in SQLite, whose waiters poll with growing pauses.
    _turn: Turn = field(default_factory=threading.RLock)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with _clear_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._turn, _clear_errors(), self.engine.execution_options(writes=True).begin() as connection:
            yield connection

    @contextmanager
    def unchecked_write(self) -> Iterator[Connection]:
        """A write that may break references until its end: where SQLite rebuilds a table, a checked one would
        delete the rows that point to it."""
        with self._turn, _clear_errors(), self.engine.execution_options(writes=True).connect() as connection:
            if self.is_sqlite:
                _set_foreign_keys(connection, "OFF")
            try:
                with connection.begin():
                    yield connection
            finally:
                if self.is_sqlite:
                    _set_foreign_keys(connection, "ON")

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """An insert that also has the dialect's `on_conflict_*` methods."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def close(self) -> None:
        self.engine.dispose()


def utc_now() -> datetime:
    return datetime.now(UTC)


def open_database(url: str, *, now: Callable[[], datetime] = utc_now) -> Database:
    """`sqlite:////absolute/file.db` or `postgresql+psycopg://user:password@host/name`; makes no tables."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise _unknown_url(url) from error
    if parsed.drivername == "sqlite" and parsed.database:
        engine = create_engine(parsed, pool_size=20, max_overflow=40, connect_args={"timeout": _BUSY_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        _switch_to_wal(engine, Path(parsed.database))
        return Database(engine, now)
    if parsed.drivername == "postgresql+psycopg":
        return Database(create_engine(parsed, pool_size=20, max_overflow=40, pool_pre_ping=True), now, _NoTurn())
    raise _unknown_url(parsed.render_as_string(hide_password=True))


def _unknown_url(url: str) -> InvalidArgument:
    return InvalidArgument(
        f"The database address {url!r} is not one Runyard can open.",
        hint="Give sqlite:////absolute/path.db or postgresql+psycopg://user:password@host/name.",
    )


class _NoTurn:
    def __enter__(self) -> None: ...

    def __exit__(self, *reason: Any) -> None: ...


def _set_up_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY", "mmap_size=268435456"):
        connection.execute(f"PRAGMA {pragma}")


def _set_foreign_keys(connection: Connection, switch: str) -> None:
    """Past SQLAlchemy, which would begin a transaction; inside one SQLite ignores the pragma."""
    driver = connection.connection.dbapi_connection
    assert driver is not None
    driver.cursor().execute(f"PRAGMA foreign_keys={switch}")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


def _switch_to_wal(engine: Engine, file: Path) -> None:
    """The mode stays in the file. Switching fails at once when two try, whatever the time-out, hence the lock."""
    if not file.parent.is_dir():
        raise InvalidArgument(f"The folder {str(file.parent)!r} of the database does not exist.", hint="Make it first.")
    lock = os.open(file.with_name(file.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _clear_errors():
            raw = engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA journal_mode=WAL")
            finally:
                raw.close()
    finally:
        os.close(lock)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise _explained(error) from error


def _explained(error: OperationalError) -> RunyardError:
    reason = str(error.orig)
    if "is full" in reason or "No space left" in reason:
        return StorageFull(
            f"The database could not be written: {reason}.",
            hint="Free disk space and try again; nothing stored is lost.",
        )
    return RunyardError(
        f"The database failed: {reason}.", hint="See the service's log; `runyard doctor` checks the disk."
    )
