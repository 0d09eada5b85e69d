import socket

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert
from sqlalchemy.exc import IntegrityError

from runyard.core.errors import DatabaseAway, InvalidArgument, StorageFull
from runyard.core.records.runs import RunId
from runyard.storage.sql.database import open_database
from runyard.storage.sql.prepared import PreparedStatement
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import a_run
from runyard.testing.small_disk import mounted


@pytest.mark.parametrize("url", ["", "runyard.db", "mysql://root:secret@host/x", "sqlite://", "postgresql://host/x"])
def test_an_address_that_is_no_database_of_ours_is_refused(url):
    with pytest.raises(InvalidArgument, match="sqlite:////absolute") as refused:
        open_database(url)
    assert "secret" not in str(refused.value)


def test_a_database_server_that_is_down_is_worth_another_try():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    database = open_database(f"postgresql+psycopg://somebody@127.0.0.1:{port}/runyard")
    for connected in (database.read, database.write):
        with pytest.raises(DatabaseAway, match="takes no connections"), connected():
            pass
    database.close()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match="nowhere"):
        open_database(f"sqlite:///{tmp_path}/nowhere/runyard.db")


def test_what_is_acknowledged_is_synced_and_readers_do_not_wait_for_writers(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/runyard.db")
    with database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}
    with database.write() as writing, database.read() as reading:
        writing.exec_driver_sql("CREATE TABLE t (x)")
        assert reading.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar() == 0
    database.close()


def test_a_statement_that_failed_is_not_run_again(tmp_path):
    """A full disk may roll the transaction back: run again, the statement would be committed alone."""
    database = open_database(f"sqlite:///{tmp_path}/runyard.db")
    add_row = PreparedStatement(insert(Table("t", MetaData(), Column("x", Integer, primary_key=True))))
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    executed: list[str] = []

    def add_two():
        with database.write() as connection:
            connection.connection.driver_connection.set_trace_callback(executed.append)
            add_row.change(connection, {"x": 2})
            add_row.change(connection, {"x": 1})

    with pytest.raises(IntegrityError):
        add_two()
    assert [words for words in executed if words.startswith("INSERT")] == [
        "INSERT INTO t (x) VALUES (2)",
        "INSERT INTO t (x) VALUES (1)",
    ]
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT x FROM t").scalars().all() == [1]
    database.close()


def test_a_full_disk_stops_writing_and_loses_nothing(tmp_path):
    with mounted(tmp_path / "small", megabytes=2) as disk:
        stores = open_stores(f"sqlite:///{disk}/runyard.db")
        stored = []
        for number in range(20):
            stored.append(stores.runs.create(a_run(f"r{number}", definition={"x": "y" * 20_000})))
        with pytest.raises(StorageFull, match="full"):
            stores.runs.create(a_run("large", definition={"x": "y" * 2_000_000}))
        assert [stores.runs.get(run.id) for run in stores.runs.unfinished()] == stored
        stores.close()
        reopened = open_stores(f"sqlite:///{disk}/runyard.db")
        assert reopened.runs.get(RunId("r0")) == stored[0]
        reopened.close()
