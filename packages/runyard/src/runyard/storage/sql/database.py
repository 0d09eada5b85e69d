import fcntl
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, Executable, Table, create_engine, event, make_url
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from runyard.core.errors import DatabaseAway, InvalidArgument, RunyardError, StandingBy, StorageFull
from runyard.storage.sql.recent_runs import RecentRuns

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

_BUSY_SECONDS = 30
_EPOCH = "SELECT epoch FROM service_lease WHERE key = 1"
_AWAY = ("connection failed", "Connection refused", "is starting up", "is shutting down")
_POOL: dict[str, Any] = {"pool_size": 20, "max_overflow": 40}


class Fence:
    """Allows a write only while the database's lease has the epoch of this process; see lease.py."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        """None if this process needs no lease: tools and tests."""
        self.on_lost: Callable[[], None] = lambda: None
        self._held_until = 0.0
        self._is_lost = False

    def check(self, connection: Connection) -> None:
        """Check the lease in the transaction of the write. Calls `on_lost` and raises StandingBy if another service
        holds it.

        On PostgreSQL the row stays locked until the end, so nobody can take the lease over in between.
        """
        if _stored_epoch(connection) != self.epoch:
            self.lose()
            self.on_lost()
            raise StandingBy("Another service has taken the database over; this one writes nothing and steps down.")

    def hold(self, until: float) -> None:
        """Note that this process has taken the lease, which nobody else can take before `until` (`boot_seconds`)."""
        self._held_until, self._is_lost = until, False

    def renew(self, until: float) -> None:
        self._held_until = until

    def lose(self) -> None:
        """Note that the lease was released or taken over."""
        self._is_lost = True

    def is_surely_held(self) -> bool:
        """Whether no other service can have written since this one did. False for a process that was paused for too
        long, and for tools, which have no lease."""
        return not self._is_lost and boot_seconds() < self._held_until


def boot_seconds() -> float:
    """A clock that also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _stored_epoch(connection: Connection) -> int | None:
    if connection.dialect.name != "sqlite":
        found: int | None = connection.exec_driver_sql(f"{_EPOCH} FOR KEY SHARE").scalar()
        return found
    driver: Any = connection.connection.driver_connection
    try:  # without SQLAlchemy, for speed: every write does this
        row = driver.execute(_EPOCH).fetchone()
    except sqlite3.Error:
        row = connection.exec_driver_sql(_EPOCH).first()  # raises the exception that callers expect
    return row[0] if row else None


@dataclass(frozen=True)
class Database:
    """One open database, safe to share between threads.

    `read()` and `write()` give a connection inside a transaction that is committed at the end of the block. On SQLite a
    write takes the write lock at once, so what it reads before it writes stays valid.
    """

    engine: Engine
    now: Callable[[], datetime]
    insert: Callable[[Table], "sqlite.Insert | postgresql.Insert"]
    """An insert that also has the dialect's `on_conflict_*` methods."""
    fence: Fence = field(default_factory=Fence)
    session: str = ""
    """Application name of the connections, so that the next holder of the lease can end them; "" on SQLite."""
    recent_runs: RecentRuns = field(init=False)
    # Threads of this process wait here instead of in SQLite, which polls with growing pauses.
    _write_turn: AbstractContextManager[Any] = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "recent_runs", RecentRuns(self.fence.is_surely_held))

    @cached_property
    def _writing(self) -> Engine:
        """The engine whose transactions take the write lock when they begin."""
        return self.engine.execution_options(writes=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with _translated_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._write_turn, _translated_errors(), self._writing.begin() as connection:
            if self.fence.epoch is not None:
                self.fence.check(connection)
            yield connection

    @contextmanager
    def unchecked_write(self) -> Iterator[Connection]:
        """A write that checks neither the lease nor references: when SQLite rebuilds a table, reference checks would
        delete the rows that point to it."""
        with self._write_turn, _translated_errors(), self._writing.connect() as connection:
            if self.is_sqlite:
                _set_foreign_keys(connection, "OFF")
            try:
                with connection.begin():
                    yield connection
            finally:
                if self.is_sqlite:
                    _set_foreign_keys(connection, "ON")

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def close(self) -> None:
        self.engine.dispose()


def utc_now() -> datetime:
    return datetime.now(UTC)


def open_database(url: str, *, now: Callable[[], datetime] = utc_now) -> Database:
    """Open `sqlite:////absolute/file.db` or `postgresql+psycopg://user:password@host/name`; creates no tables."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise _unknown_url(url) from error
    if parsed.drivername == "sqlite" and parsed.database:
        return _open_sqlite(parsed, Path(parsed.database), now)
    if parsed.drivername == "postgresql+psycopg":
        return _open_postgres(parsed, now)
    raise _unknown_url(parsed.render_as_string(hide_password=True))


def _open_sqlite(url: URL, file: Path, now: Callable[[], datetime]) -> Database:
    engine = create_engine(url, **_POOL, connect_args={"timeout": _BUSY_SECONDS})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    _switch_to_wal(engine, file)
    return Database(engine, now, sqlite.insert)


def _open_postgres(url: URL, now: Callable[[], datetime]) -> Database:
    from sqlalchemy.dialects import postgresql  # a tenth of the start-up time, so only if it is used

    try:
        session = f"runyard-{uuid.uuid4().hex}"
        engine = create_engine(url, **_POOL, pool_pre_ping=True, connect_args={"application_name": session})
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            "A PostgreSQL database needs the package 'psycopg'.", hint="Run: pip install 'runyard[postgres]'"
        ) from error
    return Database(engine, now, postgresql.insert, session=session, _write_turn=nullcontext())


def _unknown_url(url: str) -> InvalidArgument:
    return InvalidArgument(
        f"The database address {url!r} is not one Runyard can open.",
        hint="Give sqlite:////absolute/path.db or postgresql+psycopg://user:password@host/name.",
    )


def _set_up_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}")


def _set_foreign_keys(connection: Connection, switch: str) -> None:
    """Set the pragma on the raw connection: SQLAlchemy would begin a transaction, and SQLite ignores it inside one."""
    driver = connection.connection.dbapi_connection
    assert driver is not None
    driver.cursor().execute(f"PRAGMA foreign_keys={switch}")


def _begin_sqlite(connection: Connection) -> None:
    driver: Any = connection.connection.driver_connection
    # Without SQLAlchemy, which adds a quarter to the cost of reading a row.
    if not connection.get_execution_options().get("writes"):
        driver.execute("BEGIN")  # takes no lock
        return
    try:
        driver.execute("BEGIN IMMEDIATE")
    except sqlite3.Error:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # raises the exception that callers expect


def _switch_to_wal(engine: Engine, file: Path) -> None:
    """The mode is stored in the file. The lock is needed because switching fails at once if two processes try."""
    if not file.parent.is_dir():
        raise InvalidArgument(f"The folder {str(file.parent)!r} of the database does not exist.", hint="Make it first.")
    lock = os.open(file.with_name(file.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _translated_errors():
            raw = engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA journal_mode=WAL")
            finally:
                raw.close()
    finally:
        os.close(lock)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise _translate_error(error) from error


def _translate_error(error: OperationalError) -> RunyardError:
    reason = str(error.orig)
    if "is full" in reason or "No space left" in reason:
        return StorageFull(
            f"The database could not be written: {reason}.",
            hint="Free disk space and try again; nothing stored is lost.",
        )
    if error.statement is None and any(words in reason for words in _AWAY):  # no statement was sent yet
        return DatabaseAway(
            f"The database takes no connections: {reason.strip()}.", hint="Start the database server, or wait for it."
        )
    return RunyardError(
        f"The database failed: {reason}.", hint="See the service's log; `runyard doctor` checks the disk."
    )


@cache
def upsert(insert: Callable[[Table], Any], table: Table, key: tuple[str, ...], replaced: tuple[str, ...]) -> Executable:
    """Statement that inserts rows, or replaces the `replaced` columns of a row with the same `key`.

    `insert` is `Database.insert`. Cached: `excluded` copies the whole table into objects that only the garbage
    collector frees.
    """
    statement = insert(table)
    new = {name: statement.excluded[name] for name in replaced}
    made: Executable = statement.on_conflict_do_update(index_elements=key, set_=new)
    return made
