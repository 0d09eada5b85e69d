import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from alembic.command import upgrade
from alembic.config import Config
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from runyard.core.errors import SchemaTooNew, StorageFull
from runyard.core.records.lineage import DatasetUse, Direction
from runyard.core.records.runs import RunId
from runyard.core.records.sweeps import Trial
from runyard.storage.sql import migration
from runyard.storage.sql.database import Database, open_database
from runyard.storage.sql.migration import COPIES_KEPT, MIGRATIONS, migrate
from runyard.storage.sql.schema import HEAD, metadata
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import AT, a_run, scalars

LATER = '''
"""Rebuilds `runs`, as SQLite must for most changes."""

import sqlalchemy as sa
from alembic import op

revision = "later"
down_revision = "{head}"


def upgrade():
    with op.batch_alter_table("runs", recreate="auto") as runs:
        runs.add_column(sa.Column("mood", sa.Text(), nullable=False, server_default="calm"))
        runs.alter_column("message", existing_type=sa.Text(), nullable=True)
'''


BEFORE_SWEEPS = (
    "INSERT INTO experiments (key, workspace, name, id, created_at, description, tags, last_number)"
    " VALUES (1, 'vision', 'mnist', 'e1', 0, '', '{}', 1)",
    "INSERT INTO runs (sequence, id, workspace, experiment, experiment_key, number, status, finished, created_at,"
    " version, type, target, display_name, description, tags, properties, warnings, message, attempt, ticket, nodes,"
    " dropped_points) VALUES (1, 'r1', 'vision', 'mnist', 1, 1, 'Running', false, 0, 1, '', '', '', '', '{}', '{}',"
    " '[]', '', 1, 'r1.1', '[]', 0)",
    "INSERT INTO run_details (run, definition, environment_lock) VALUES (1, '{}', '')",
    "INSERT INTO metrics (key, run, name_key, family, name, kind, workspace, experiment_key, last_part, count, last,"
    " minimum, maximum) VALUES (1, 1, 'loss', 'scalar', 'loss', 'scalar', 'vision', 1, 0, 4, 0.5, 0.5, 0.5)",
)


@pytest.fixture
def later_release(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    (folder / "versions" / "later.py").write_text(LATER.format(head=HEAD))
    return folder


@pytest.fixture
def empty_url(database_url: str) -> Iterator[str]:
    """No tables at all."""
    _drop_all(database_url)
    yield database_url
    _drop_all(database_url)  # a server outlives the test; what a later release made must not meet the next one


def test_migrations_and_the_quick_way_make_the_same_tables(empty_url):
    database = open_database(empty_url)
    migrate(database)
    quick = _described(database.engine)
    database.close()
    _drop_all(empty_url)
    database = open_database(empty_url)
    _upgrade_to(database, "head")
    assert _described(database.engine) == quick
    database.close()


def test_an_upgrade_keeps_every_row(empty_url, later_release):
    stores = open_stores(empty_url)
    before = stores.runs.create(a_run(tags={"a": "b"}, definition={"script": "a.py"}))
    migrate(stores.database, folder=later_release, head="later")
    assert stores.runs.get(RunId("r1")) == before
    with stores.database.read() as connection:
        assert connection.execute(text("SELECT mood FROM runs")).scalar() == "calm"
    stores.close()


def test_the_database_is_copied_before_it_is_changed_and_the_last_two_copies_are_kept(
    empty_url, later_release, tmp_path
):
    stores = open_stores(empty_url)
    stores.runs.create(a_run())
    for _ in range(COPIES_KEPT + 1):
        with stores.database.write() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{HEAD}'"))
        with suppress(DBAPIError):  # the column is there from the second time on
            migrate(stores.database, folder=later_release, head="later", copies=tmp_path)
    stores.close()
    copies = sorted(tmp_path.glob(f"*.schema-{HEAD}-*"))
    assert 1 <= len(copies) <= COPIES_KEPT
    if stores.database.is_sqlite:
        copy = open_stores(f"sqlite:///{copies[0]}")
        assert [run.id for run in copy.runs.unfinished()] == ["r1"]
        copy.close()
    else:
        listed = subprocess.run(["pg_restore", "--list", str(copies[0])], capture_output=True, text=True, check=True)
        assert "TABLE DATA public runs" in listed.stdout


def test_a_copy_that_cannot_be_made_leaves_the_database_as_it_was(tmp_path, later_release, monkeypatch):
    url = f"sqlite:///{tmp_path}/runyard.db"
    stores = open_stores(url)

    def full(*_):
        raise StorageFull("The disk is full.")

    monkeypatch.setattr(migration, "copy_sqlite", full)
    with pytest.raises(StorageFull):
        migrate(stores.database, folder=later_release, head="later")
    with stores.database.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
    stores.close()


def test_a_database_of_the_first_release_is_brought_up_to_date(empty_url):
    database = open_database(empty_url)
    _upgrade_to(database, "0001")
    database.close()
    stores = open_stores(empty_url)
    run = stores.runs.create(a_run())
    use = DatasetUse(run.id, Direction.INPUT, "mnist", "d1", "digits", 1, "Mount", AT)
    stores.lineage.record([use])
    assert stores.lineage.of_run(run.id) == [use]
    stores.close()


def test_a_database_from_before_sweeps_keeps_its_metrics_and_takes_trials(empty_url):
    database = open_database(empty_url)
    _upgrade_to(database, "0003")
    with database.write() as connection:
        for statement in BEFORE_SWEEPS:
            connection.execute(text(statement))
    database.close()
    stores = open_stores(empty_url)
    [run] = stores.runs.unfinished()
    stores.metrics.append(run.id, "j", 0, 1, [scalars("loss", 0.25)])
    [summary] = stores.metrics.summaries([run.id])[run.id]
    assert (summary.count, summary.minimum, summary.maximum) == (5, 0.25, 0.5)
    stores.trials.add([Trial(run.id, 0, {"lr": 0.1})])
    assert stores.trials.list(run.id) == [Trial(run.id, 0, {"lr": 0.1})]
    stores.close()


def test_a_database_of_a_later_release_is_refused(empty_url, later_release):
    stores = open_stores(empty_url)
    migrate(stores.database, folder=later_release, head="later")
    with pytest.raises(SchemaTooNew, match=r"schema later.*knows up to") as refused:
        migrate(stores.database)
    assert "Install the newer runyard" in refused.value.hint
    stores.close()


def test_eight_processes_may_open_a_new_database_at_once(empty_url):
    program = (
        "import sys; from runyard.storage.sql.stores import open_stores; from runyard.testing.records import AT, a_run;"
        "open_stores(sys.argv[1]).runs.create(a_run(sys.argv[2]))"
    )
    openers = [
        subprocess.Popen([sys.executable, "-c", program, empty_url, f"r{number}"], stderr=subprocess.PIPE, text=True)
        for number in range(8)
    ]
    assert [opener.communicate()[1] for opener in openers] == [""] * 8
    stores = open_stores(empty_url)
    assert [run.number for run in stores.runs.unfinished()] == list(range(1, 9))
    stores.close()


def test_alembic_is_not_imported_for_a_new_or_current_database(tmp_path):
    program = (
        "import sys; from runyard.storage.sql.stores import open_stores\n"
        "for _ in range(2): open_stores(sys.argv[1]).close()\n"
        "sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, f"sqlite:///{tmp_path}/a.db"], check=True)


def _upgrade_to(database: Database, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with database.unchecked_write() as connection:
        config.attributes["connection"] = connection
        upgrade(config, revision)


def _described(engine: Engine) -> dict[str, Any]:
    found = inspect(engine)
    return {
        table: {
            "columns": [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)],
            "key": found.get_pk_constraint(table)["constrained_columns"],
            "unique": sorted(u["column_names"] for u in found.get_unique_constraints(table)),
            "foreign": sorted(
                (f["constrained_columns"], f["referred_table"], f["options"].get("ondelete"))
                for f in found.get_foreign_keys(table)
            ),
            "indexes": sorted(
                (i["name"], i["column_names"], bool(i["dialect_options"])) for i in found.get_indexes(table)
            ),
        }
        for table in sorted(metadata.tables)
    }


def _drop_all(url: str) -> None:
    database = open_database(url)
    with database.write() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE IF EXISTS alembic_version"))
    database.close()
