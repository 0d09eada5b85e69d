"""Copies a whole database: SQLite by its online backup, PostgreSQL by pg_dump, or row by row."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, BigInteger, Connection, func, insert, make_url, select, text

from runyard.core.durable_files import fsync_file
from runyard.core.errors import RunyardError, StorageFull
from runyard.storage.sql.database import Database
from runyard.storage.sql.schema import metadata

_BUSY_SECONDS = 30
_CLIENT_HINT = "Debian: apt-get install postgresql-client"


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a consistent state of a database to a single synced file. Does not block writers of the source.

    Raises StorageFull, and RunyardError if the source is damaged.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        # In one step: a backup in several steps restarts whenever another process writes in between.
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=rw", uri=True, timeout=_BUSY_SECONDS)) as opened,
            closing(sqlite3.connect(target)) as copy,
        ):
            opened.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise copy_error(source, error) from error
    fsync_file(target)


def sqlite_faults(file: Path) -> list[str]:
    """Errors that SQLite's integrity check finds; empty for a sound database."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=rw", uri=True, timeout=_BUSY_SECONDS)) as opened:
            found = [str(row[0]) for row in opened.execute("PRAGMA integrity_check")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def copy_error(file: Path, error: sqlite3.Error) -> RunyardError:
    if "is full" in str(error):
        return StorageFull(f"{str(file)!r} could not be copied: {error}.", hint="Free disk space and try again.")
    return RunyardError(f"The database {str(file)!r} could not be copied: {error}.", hint="Run: runyard check")


def dump_postgres(url: str, target: Path, *, snapshot: str = "") -> None:
    """Write a dump in pg_dump's custom format, of an exported `snapshot` if one is given.

    Raises RunyardError if pg_dump is missing or older than the server.
    """
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--file={target}"]
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        _run_client("pg_dump", url, [*options, *([f"--snapshot={snapshot}"] if snapshot else [])])
    except RunyardError:
        target.unlink(missing_ok=True)
        raise
    fsync_file(target)


def load_postgres(url: str, dump: Path) -> None:
    """Fill an empty database from a dump, completely or not at all."""
    _run_client(
        "pg_restore", url, ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction", str(dump)]
    )


def _run_client(program: str, url: str, options: Sequence[str]) -> None:
    found = shutil.which(program)
    if found is None:
        raise RunyardError(
            f"A PostgreSQL database needs the program {program!r}, which is not on PATH.", hint=_CLIENT_HINT
        )
    address = make_url(url)
    # The password is passed in a variable: every user of the machine can read a command line.
    variables = {**os.environ, **({"PGPASSWORD": str(address.password)} if address.password else {})}
    command = [found, f"--dbname={_for_libpq(address)}", "--no-password", *options]
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise _client_failure(program, done.stderr)


def _client_failure(program: str, output: str) -> RunyardError:
    lines = [line.removeprefix(f"{program}: ").strip() for line in output.splitlines() if line.strip()]
    if any("server version mismatch" in line for line in lines):
        versions = next((line for line in lines if "server version:" in line), lines[-1])
        return RunyardError(
            f"{program} is older than the PostgreSQL server ({versions.removeprefix('detail: ')}).",
            hint="Install the client programs of the server's version and put them first on PATH.",
        )
    if any("No space left" in line for line in lines):
        return StorageFull(f"{program} failed: the disk is full.", hint="Free disk space and try again.")
    return RunyardError(f"{program} failed: {' '.join(lines[:3]) or 'it said nothing'}.")


def _for_libpq(url: URL) -> str:
    """The address without its password, in the form of PostgreSQL's own programs."""
    plain = url.set(drivername="postgresql")
    return URL.create(
        plain.drivername, plain.username, None, plain.host, plain.port, plain.database, plain.query
    ).render_as_string(hide_password=False)


_ROWS_AT_ONCE = 500


def copy_rows(source: Database, target: Database) -> None:
    """Copy every row to the empty tables of another database, all or nothing. Both must have the newest schema."""
    with source.read() as old, target.write() as new:
        for table in metadata.sorted_tables:
            found = old.execution_options(yield_per=_ROWS_AT_ONCE).execute(select(table)).mappings()
            for rows in found.partitions(_ROWS_AT_ONCE):
                new.execute(insert(table), [dict(row) for row in rows])
        if not target.is_sqlite:
            _count_on(new)


def _count_on(connection: Connection) -> None:
    """Advance PostgreSQL's sequences: inserting rows with explicit keys does not."""
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None and isinstance(column.type, BigInteger):
            last = connection.execute(select(func.max(column))).scalar()
            place = {"table": table.name, "column": column.name, "last": last}
            if last:
                connection.execute(text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)"), place)
