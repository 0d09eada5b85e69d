"""A home whose database is gone, or is another's, loses nothing more."""

import os
import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from runyard.core.errors import Conflict, RunyardError
from runyard.server.lifecycle import start_service, stop_service
from runyard.server.lifecycle.process import without_service
from runyard.storage.sql.database import open_database
from runyard.storage.sql.schema import metadata
from tests.storage.conformance.conftest import postgres_url
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

__all__ = ["postgres_url"]


def used_home(home: Path, name: str = "space") -> WireClient:
    facts = start_service(home, keep=False)
    client = WireClient(facts["url"], facts["token"], workspace=name)
    client.put(client.here, {"exist_ok": True})
    run_id = client.interactive_run(f"first-of-{name}")["id"]
    blob = client.put_blob(b"the file " + os.urandom(8))
    client.post(f"/runs/{run_id}/files", {"entries": [["outputs/x", blob, 17, 0o644]]})
    client.post(f"/runs/{run_id}/logs/out.txt?offset=0", b"a line\n")
    client.patch(f"/runs/{run_id}", {"status": "Completed"})
    return client


def remove_database(home: Path) -> None:
    for name in ("runyard.db", "runyard.db-wal", "runyard.db-shm"):
        (home / name).unlink(missing_ok=True)


def blobs_of(home: Path) -> list[Path]:
    return sorted((home / "blobs").glob("??/*"))


def test_a_home_without_its_database_is_refused_with_the_way_back(home, tmp_path):
    used_home(home)
    stop_service(home)
    there = blobs_of(home)
    shutil.copy(home / "runyard.db", tmp_path / "kept.db")
    remove_database(home)
    for _ in range(2):
        with pytest.raises(RunyardError, match=r"no database.*not mounted.*runyard restore FOLDER.*--begin-anew"):
            start_service(home, keep=False)
    assert not (home / "runyard.db").exists()
    assert blobs_of(home) == there
    shutil.copy(tmp_path / "kept.db", home / "runyard.db")
    facts = start_service(home, keep=False)
    assert WireClient(facts["url"], facts["token"]).get("/runs/first-of-space")["status"] == "Completed"


@pytest.mark.servers
def test_an_empty_postgresql_is_refused_for_a_home_that_was_used(home, postgres_url, monkeypatch):
    monkeypatch.setenv("RUNYARD_DATABASE_URL", postgres_url)
    _drop_all(postgres_url)
    used_home(home)
    stop_service(home)
    _drop_all(postgres_url)
    with pytest.raises(RunyardError, match=r"no database.*RUNYARD_DATABASE_URL"):
        start_service(home, keep=False)


def test_beginning_anew_moves_the_files_aside(yard):
    used_home(yard.home)
    refused = yard("up", "--begin-anew")
    assert "running" in refused.stderr
    stop_service(yard.home)
    assert "has its database" in yard("up", "--begin-anew").stderr
    remove_database(yard.home)
    blob = blobs_of(yard.home)[0]
    yard.must("up", "--begin-anew")
    [aside] = yard.home.glob("without-database-*")
    assert (aside / blob.relative_to(yard.home)).is_file()
    assert yard.must("runs", "list") == []


def test_a_restore_that_was_cut_is_refused(home):
    home.mkdir(exist_ok=True)
    (home / "restoring").write_text("x")
    with pytest.raises(RunyardError, match=r"restore was cut.*runyard restore FOLDER"):
        start_service(home, keep=False)


def test_what_works_on_a_home_beside_a_restore_is_told_so(home):
    home.mkdir(exist_ok=True)
    with without_service(home):
        told = pytest.raises(Conflict, match=r"Another process works on the home .*: a restore.*Wait until")
        with told, without_service(home):
            pass
        (home / "restoring").write_text("x")
        with pytest.raises(RunyardError, match=r"is being restored.*once `runyard restore` has ended"):
            start_service(home, keep=False)


def test_gc_deletes_nothing_on_an_empty_database(home):
    used_home(home)
    stop_service(home)
    there = blobs_of(home)
    _clear(home)
    facts = start_service(home, keep=False)
    client = WireClient(facts["url"], facts["token"], workspace="space")
    assert "database is empty" in client.refusal("POST", "/gc", {"older_than_seconds": 0})["problem"]
    client.put(client.here, {"exist_ok": True})
    refusal = client.refusal("POST", "/gc", {"older_than_seconds": 0})
    assert "does not know 1 of 1 runs that have logs in the home ('first-of-space' is one)" in refusal["problem"]
    assert "runyard restore" in refusal["hint"]
    assert blobs_of(home) == there


def test_gc_deletes_nothing_with_an_older_database(home):
    client = used_home(home)
    for number in range(30):
        run_id = client.interactive_run(f"later-{number}")["id"]
        client.post(f"/runs/{run_id}/logs/out.txt?offset=0", b"a line\n")
        client.patch(f"/runs/{run_id}", {"status": "Completed"})
    client.delete("/runs/later-0")
    assert client.post("/gc", {"older_than_seconds": 0})["blobs"]["count"] == 0
    stop_service(home)
    database = open_database(f"sqlite:///{home}/runyard.db")
    with database.write() as connection:
        connection.execute(text("DELETE FROM runs WHERE number > 20"))
    database.close()
    facts = start_service(home, keep=False)
    client = WireClient(facts["url"], facts["token"], workspace="space")
    assert "does not know" in client.refusal("POST", "/gc", {"older_than_seconds": 0})["problem"]


def _clear(home: Path) -> None:
    database = open_database(f"sqlite:///{home}/runyard.db")
    with database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    database.close()


def _drop_all(url: str) -> None:
    database = open_database(url)
    with database.write() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE IF EXISTS alembic_version"))
    database.close()
