import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from runyard.core.errors import Conflict
from runyard.core.records.runs import RunId, RunQuery
from runyard.core.settings import Settings
from runyard.server.home_check import HomeCheck, HomeFinding
from runyard.server.http.error_responses import unexpected_error
from runyard.storage.sql.database import open_database
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import scalars
from tests.storage.backup.homes import Home, quiet, take
from tests.storage.conformance.conftest import postgres_url

pytestmark = pytest.mark.slow

__all__ = ["postgres_url"]


@pytest.fixture
def home(stores_home):
    return stores_home


def checking(home: Home, url: str = "") -> HomeCheck:
    return HomeCheck(Settings(home.path, database_url=url), quiet, nullcontext)


def damage(found: list[HomeFinding]) -> list[str]:
    return [one.what for one in found if one.is_damage and not one.repaired]


def alter(home: Home, sha256: str, content: bytes = b"other") -> None:
    path = home.blobs.local_path(sha256)
    path.chmod(0o644)
    path.write_bytes(content)


def test_a_sound_home_has_nothing_to_say(home):
    home.add_run("r1")
    assert checking(home).check() == []


def test_files_that_are_missing_or_altered_are_named_by_run_and_path(home):
    home.add_run("r1")
    gone, altered, _ = home.stores.files.list(RunId("r1"))
    home.blobs.local_path(gone.sha256).unlink()
    alter(home, altered.sha256)
    assert damage(checking(home).check()) == [
        f"'outputs/0' of run r1 is missing (blob {gone.sha256}).",
        f"'outputs/1' of run r1 is altered (blob {altered.sha256}).",
    ]


def test_a_repair_moves_bad_blobs_aside_and_brings_them_back_from_a_backup(home, folder):
    home.add_run("r1")
    take(home, folder)
    before = home.texts("r1")
    gone, altered, _ = home.stores.files.list(RunId("r1"))
    home.blobs.local_path(gone.sha256).unlink()
    alter(home, altered.sha256)
    assert len(damage(checking(home).repair(None))) == 2
    [aside] = home.path.glob("damaged-*")
    assert (aside / "blobs" / altered.sha256[:2] / altered.sha256).read_bytes() == b"other"
    assert damage(checking(home).repair(folder)) == []
    assert home.texts("r1") == before
    assert checking(home).check() == []


def test_blobs_that_nothing_names_are_counted_and_no_damage(home):
    home.add_run("r1")
    home.blobs.put_many([("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", b"hello")])
    [found] = checking(home).check()
    assert "1 blobs (5 bytes) are named by nothing" in found.what
    assert not found.is_damage


def test_folders_without_an_owner_are_named_and_moved_aside(home):
    home.add_run("r1")
    home.logs.append("nobody", "out.txt", 0, b"x")
    for path in ("attempts/nobody.1/work", "attempts/r1.1/work", "environments/0123"):
        (home.path / path).mkdir(parents=True)
    (home.path / "environments" / "locks").mkdir()
    assert sorted(one.what for one in checking(home).check()) == [
        "attempts/nobody.1 belongs to nothing in the database.",
        "environments/0123 is an environment that was not finished.",
        "logs/nobody belongs to nothing in the database.",
    ]
    repaired = checking(home).repair(None)
    assert all(one.repaired for one in repaired)
    [aside] = home.path.glob("damaged-*")
    assert (aside / "logs" / "nobody" / "out.txt").read_bytes() == b"x"
    assert not (home.path / "environments" / "0123").exists()
    assert (home.path / "attempts" / "r1.1").is_dir()
    assert checking(home).check() == []


def test_a_run_submitted_during_a_check_keeps_its_folders(home):
    home.add_run("r1")

    def submit(what: str, done: int, total: int) -> None:
        if what == "blobs":
            home.add_run("r2")

    assert HomeCheck(Settings(home.path), submit, nullcontext).repair(None) == []
    assert home.logs.read("r2", "logs/out.txt") == b"a line\n"


def test_folders_are_not_moved_under_a_running_service(home):
    home.add_run("r1")
    home.logs.append("being-imported", "out.txt", 0, b"x")

    @contextmanager
    def running() -> Iterator[None]:
        raise Conflict("The service is running.", hint="Stop it first: runyard down")
        yield

    named, why = HomeCheck(Settings(home.path), quiet, running).repair(None)
    assert (named.repaired, named.is_damage) == ("", False)
    assert "not moved: The service is running. Stop it first" in why.what
    assert (home.path / "logs" / "being-imported" / "out.txt").exists()


def many_runs(home: Home) -> None:
    for number in range(120):
        home.add_run(f"r{number}", files=1)
        home.stores.metrics.append(RunId(f"r{number}"), "j", 0, 1, [scalars("loss", float(number))])


def spoil_page_of(home: Home, run_id: str) -> None:
    """Overwrite the page of `runs` that the run lies on, as a failing disk does."""
    file = home.path / "runyard.db"
    home.stores.close()
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(text,)] = opened.execute("SELECT id FROM runs WHERE id = ?", (run_id,))
        root = opened.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
        size = opened.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(file.read_bytes())
    for page in _leaves(data, root, size):
        start = (page - 1) * size
        if f"{text}vision".encode() in data[start : start + size]:
            data[start : start + size] = b"\xff" * size
            break
    else:
        raise AssertionError("no page has the run")
    file.write_bytes(data)


def _leaves(data: bytes, page: int, size: int) -> list[int]:
    start = (page - 1) * size
    if data[start] == 13:
        return [page]
    assert data[start] == 5
    cells = int.from_bytes(data[start + 3 : start + 5], "big")
    children = [int.from_bytes(data[start + 8 : start + 12], "big")]
    for number in range(cells):
        at = int.from_bytes(data[start + 12 + 2 * number : start + 14 + 2 * number], "big")
        children.append(int.from_bytes(data[start + at : start + at + 4], "big"))
    return [leaf for child in children for leaf in _leaves(data, child, size)]


@pytest.mark.parametrize("spoiled", ["r3", "r60", "r119"])
def test_one_bad_page_neither_fails_a_listing_nor_the_other_runs(home, spoiled, caplog):
    many_runs(home)
    spoil_page_of(home, spoiled)
    home.stores = open_stores(f"sqlite:///{home.path}/runyard.db")
    listed = [run.id for run in home.stores.runs.list(RunQuery("vision", limit=1000))]
    assert 60 < len(listed) < 120
    assert spoiled not in listed
    assert listed == sorted(listed, key=lambda name: -int(name[1:]))
    assert "runyard check" in caplog.text
    assert [run.id for run in home.stores.runs.unfinished()] == listed[::-1]
    pages, before = [], None
    while page := home.stores.runs.list(RunQuery("vision", limit=25, before=before)):
        pages += [run.id for run in page]
        before = page[-1].sequence
    assert pages == listed


def test_a_request_that_meets_a_bad_page_is_told_to_check_the_home(home):
    many_runs(home)
    spoil_page_of(home, "r60")
    database = open_database(f"sqlite:///{home.path}/runyard.db")
    with closing(database), pytest.raises(DatabaseError) as met, database.read() as connection:
        connection.execute(text("SELECT * FROM runs NOT INDEXED")).all()
    said = json.loads(bytes(unexpected_error("POST", met.value).body))
    assert "database is damaged" in said["problem"]
    assert "runyard check" in said["hint"]


def test_a_damaged_database_is_named_and_built_again_from_what_can_be_read(home):
    many_runs(home)
    spoil_page_of(home, "r60")
    found = checking(home).check()
    assert any(one.part == "database" for one in found)
    assert damage(found)
    repaired = checking(home).repair(None)
    assert any(one.part == "database" and one.repaired for one in repaired)
    lost = " ".join(one.what for one in repaired if one.what.startswith("Lost: "))
    assert "r60" in lost
    [aside] = home.path.glob("damaged-*")
    assert (aside / "runyard.db").is_file()
    home.stores = open_stores(f"sqlite:///{home.path}/runyard.db")
    kept = home.stores.runs.list(RunQuery("vision", limit=1000))
    assert 60 < len(kept) < 120
    for run in kept:
        number = float(run.id[1:])
        assert [list(one.values) for one in home.stores.metrics.series(run.id)] == [[number]]
        assert home.stores.files.list(run.id)
    again = checking(home).check()
    assert [one for one in again if one.part == "database"] == []


def test_the_database_is_not_built_again_under_a_running_service(home):
    home.add_run("r1")
    for number in range(40):
        home.add_run(f"x{number}", files=0)
    spoil_page_of(home, "r1")

    class Running:
        def __enter__(self):
            raise Conflict("The service is running.", hint="Stop it first: runyard down")

        def __exit__(self, *_):
            pass

    found = HomeCheck(Settings(home.path), quiet, Running).repair(None)
    assert "It was not repaired: The service is running. Stop it first: runyard down" in damage(found)
    assert not list(home.path.glob("damaged-*/runyard.db"))


def test_the_command_exits_1_while_something_is_damaged(yard):
    home = Home(yard.home)
    home.add_run("r1")
    entry = home.stores.files.list(RunId("r1"))[0]
    home.stores.close()
    assert yard.must("check") == {"damaged": 0, "findings": []}
    alter(home, entry.sha256)
    done = yard("check")
    assert done.returncode == 1
    assert f"DAMAGE: files: 'outputs/0' of run r1 is altered (blob {entry.sha256})." in done.stdout
    assert "1 thing is damaged. Repair: `runyard check --repair" in done.stdout
    assert yard("check", "--from", "x").returncode == 2


@pytest.mark.servers
def test_a_home_on_postgresql_is_checked_too(home, postgres_url):
    open_stores(postgres_url).close()
    found = checking(home, postgres_url).check()
    assert [one for one in found if one.part == "database"] == []
