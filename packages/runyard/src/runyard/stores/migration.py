from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text

from runyard.errors import SchemaTooNew
from runyard.stores.database import Database
from runyard.stores.schema import HEAD, metadata, schema_version

MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 7_268_110_525


def migrate(database: Database, *, folder: Path = MIGRATIONS, head: str = HEAD) -> None:
    """Make the tables, or bring them to `head`. Any number of processes may call this at once; one does the work.

    Raises SchemaTooNew when a later release has been at this database.
    """
    with database.read() as connection:
        if _stored_version(connection) == head:
            return
    with database.unchecked_write() as connection:
        if not database.is_sqlite:  # on SQLite the write lock itself makes the others wait
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        found = _stored_version(connection)
        if found is None and head == HEAD:
            metadata.create_all(connection)
            schema_version.create(connection)
            connection.execute(schema_version.insert().values(version_num=head))
        elif found != head:
            _upgrade(connection, found, folder, head)


def _stored_version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(schema_version.name):
        return None
    version: str | None = connection.execute(schema_version.select()).scalar()
    return version


def _upgrade(connection: Connection, found: str | None, folder: Path, head: str) -> None:
    # Alembic takes 0.3 s to import; most starts find the schema current and never come here.
    from alembic.command import upgrade
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(folder))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise _too_new(connection.engine.url.render_as_string(hide_password=True), found, head)
    upgrade(config, head)


def _too_new(url: str, found: str, head: str) -> SchemaTooNew:
    facts: dict[str, Any] = {"found": found, "known": head}
    return SchemaTooNew(
        f"The database {url} has schema {found}, made by a later release; this one knows up to {head}.",
        hint="Install the newer runyard, or point RUNYARD_HOME at another folder.",
        **facts,
    )
