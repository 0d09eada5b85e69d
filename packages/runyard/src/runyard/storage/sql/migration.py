import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text

from runyard.core.errors import RunyardError, SchemaTooNew
from runyard.storage.sql.database import Database
from runyard.storage.sql.database_copy import copy_sqlite, dump_postgres
from runyard.storage.sql.schema import HEAD, metadata, schema_version

MIGRATIONS = Path(__file__).parent / "migrations"
COPIES_KEPT = 2
_ADVISORY_LOCK = 7_268_110_525
_log = logging.getLogger(__name__)


def migrate(
    database: Database,
    *,
    folder: Path = MIGRATIONS,
    head: str = HEAD,
    copies: Path | None = None,
    check_new: Callable[[], None] = lambda: None,
) -> None:
    """Create the tables, or upgrade them to `head`. Safe to call from several processes at once; one does the work.

    The database is copied before an upgrade: SQLite beside its file, PostgreSQL into the folder `copies` if pg_dump is
    available. `check_new` is called before tables are created in an empty database, and may raise. Raises SchemaTooNew
    if a later release has upgraded the database.
    """
    with database.read() as connection:
        if _stored_version(connection) == head:
            return
    with database.unchecked_write() as connection:
        if not database.is_sqlite:  # on SQLite the write lock makes the others wait
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        found = _stored_version(connection)
        if found is None:
            check_new()
        if found is None and head == HEAD:
            metadata.create_all(connection)
            schema_version.create(connection)
            connection.execute(schema_version.insert().values(version_num=head))
        elif found != head:
            _upgrade(connection, found, folder, head, lambda: _keep_copy(database, str(found), head, copies))


def _keep_copy(database: Database, found: str, head: str, copies: Path | None) -> None:
    """Copy the committed data. Raises StorageFull before anything is changed."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    if database.is_sqlite:
        file = Path(str(database.engine.url.database))
        _remove_older_copies(file.parent, file.name, COPIES_KEPT - 1)
        copy_sqlite(file, file.with_name(f"{file.name}.schema-{found}-{stamp}"))
        return
    try:
        if copies is None:
            raise RunyardError("There is no folder for it.")
        _remove_older_copies(copies, "postgresql", COPIES_KEPT - 1)
        url = database.engine.url.render_as_string(hide_password=False)
        dump_postgres(url, copies / f"postgresql.schema-{found}-{stamp}")
    except RunyardError as error:  # not fatal: operators of PostgreSQL have their own backups
        _log.warning("The database goes from schema %s to %s, and no copy was made before: %s", found, head, error)


def _remove_older_copies(folder: Path, name: str, keep: int) -> None:
    copies = sorted(folder.glob(f"{name}.schema-*"), key=lambda copy: copy.name.rpartition("-")[2])
    for copy in copies[: len(copies) - keep]:
        copy.unlink(missing_ok=True)


def _stored_version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(schema_version.name):
        return None
    version: str | None = connection.execute(schema_version.select()).scalar()
    return version


def _upgrade(connection: Connection, found: str | None, folder: Path, head: str, keep_copy: Callable[[], None]) -> None:
    # Imported here: Alembic takes 0.3 s, and most starts find the schema current.
    from alembic.command import upgrade
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(folder))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise _too_new(connection.engine.url.render_as_string(hide_password=True), found, head)
    if found is not None:
        keep_copy()
    upgrade(config, head)


def _too_new(url: str, found: str, head: str) -> SchemaTooNew:
    facts: dict[str, Any] = {"found": found, "known": head}
    return SchemaTooNew(
        f"The database {url} has schema {found}, made by a later release; this one knows up to {head}.",
        hint="Install the newer runyard, or point RUNYARD_HOME at another folder.",
        **facts,
    )
