"""From a backup alone everything comes back."""

import pytest
from sqlalchemy import text

from runyard.storage.sql.database import open_database
from runyard.storage.sql.schema import metadata
from tests.storage.backup.conftest import Yard
from tests.storage.conformance.conftest import postgres_url

pytestmark = pytest.mark.slow

__all__ = ["postgres_url"]
ANOTHER_RUN = """
from azureml.core import Experiment, Workspace
with Experiment(Workspace.from_config(), "story").start_logging(snapshot_directory=None) as run:
    run.log("loss", 1.0)
"""


def test_a_lost_home_comes_back_whole_from_its_backup(yard):
    yard.fill()
    before = yard.described()
    assert len(before["runs"]) == 1
    assert len(before["model"][2]) == 14
    first = yard.must("backup", yard.folder / "backups")
    assert first["new_blobs"] == first["blobs"] > 15
    assert first["notes"] == []
    second = yard.must("backup", yard.folder / "backups")
    assert (second["new_blobs"], second["blobs"]) == (0, first["blobs"])
    yard.lose_home()
    restored = yard.must("restore", yard.folder / "backups")
    assert restored["name"] == second["name"]
    assert yard.described() == before


def test_a_backup_of_a_running_service_can_be_used_beside_it(yard, tmp_path, fork_server):
    yard.python(ANOTHER_RUN)
    yard.must("backup", tmp_path / "backups")
    second = Yard(tmp_path / "second", tmp_path, fork_server)
    second.must("restore", tmp_path / "backups")
    try:
        assert len(second.must("runs", "list")) == 1
        assert "stands_by" not in second.must("status")
    finally:
        second.lose_home()
    assert yard.must("status")["running"]


@pytest.mark.servers
def test_a_lost_home_and_database_of_postgresql_come_back(yard, postgres_url):
    yard.variables["RUNYARD_DATABASE_URL"] = postgres_url
    _drop_all(postgres_url)
    yard.fill()
    before = yard.described()
    yard.must("backup", yard.folder / "backups")
    yard.lose_home()
    refused = yard("restore", yard.folder / "backups")
    assert refused.returncode == 1
    assert "not empty" in refused.stderr
    _drop_all(postgres_url)
    yard.must("restore", yard.folder / "backups")
    assert yard.described() == before
    yard.lose_home()
    _drop_all(postgres_url)


@pytest.mark.servers
def test_a_backup_of_sqlite_can_be_restored_into_postgresql(yard, postgres_url):
    _drop_all(postgres_url)
    yard.fill()
    before = yard.described()
    yard.must("backup", yard.folder / "backups")
    yard.lose_home()
    yard.variables["RUNYARD_DATABASE_URL"] = postgres_url
    yard.must("restore", yard.folder / "backups")
    assert not list(yard.home.glob("*.db*"))
    assert yard.described() == before
    yard.python(ANOTHER_RUN)
    assert [run["number"] for run in yard.described()["runs"]] == [before["runs"][0]["number"] + 2, 1]
    assert yard("restore", yard.folder / "backups").returncode == 1
    yard.lose_home()
    _drop_all(postgres_url)


@pytest.mark.servers
def test_a_pg_dump_that_is_missing_or_too_old_is_said(yard, postgres_url):
    yard.variables["RUNYARD_DATABASE_URL"] = postgres_url
    tools = yard.folder / "tools"
    tools.mkdir()
    missing = yard("backup", yard.folder / "backups", env={**yard.variables, "PATH": str(tools)})
    assert missing.returncode == 1
    assert "'pg_dump', which is not on PATH" in missing.stderr
    old = tools / "pg_dump"
    old.write_text(
        "#!/bin/sh\n"
        "echo 'pg_dump: error: aborting because of server version mismatch' >&2\n"
        "echo 'pg_dump: detail: server version: 17.1; pg_dump version: 13.2' >&2\n"
        "exit 1\n"
    )
    old.chmod(0o755)
    too_old = yard("backup", yard.folder / "backups", env={**yard.variables, "PATH": f"{tools}:/usr/bin:/bin"})
    assert "pg_dump is older than the PostgreSQL server (server version: 17.1; pg_dump version: 13.2)" in too_old.stderr
    assert [p for p in (yard.folder / "backups" / "snapshots").iterdir() if p.name[0] != "."] == []


def _drop_all(url: str) -> None:
    database = open_database(url)
    with database.write() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE IF EXISTS alembic_version"))
    database.close()
