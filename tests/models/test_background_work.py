import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from runyard.assets.workspaces import NewWorkspace, Workspaces
from runyard.core.errors import Conflict, Forbidden, InvalidArgument, NotFound
from runyard.core.principal import OWNER, Principal, Role
from runyard.core.records.assets import AssetKind
from runyard.models.background_work import BackgroundWork
from runyard.server.wiring.core import SystemClock
from runyard.storage.sql.stores import Stores, open_stores
from runyard.testing.records import a_run
from tests.grants import access_to

SECONDS = 120.0


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:

    opened = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    Workspaces(opened.assets, opened.runs, SystemClock(), access_to(opened)).create(
        OWNER, "space", NewWorkspace(), exist_ok=True
    )
    yield opened
    opened.close()


def begun(stores: Stores, at_once: int = 1) -> BackgroundWork:
    return BackgroundWork(stores.assets, access_to(stores), AssetKind.PACKAGE, "package", at_once=at_once)


def test_what_work_returns_and_says_is_kept(stores: Stores) -> None:
    work = begun(stores)

    def do(log_line):
        log_line("half of it")
        return {"size": 7}

    first = work.begin(OWNER, "space", "one", {"size": 0}, do)
    ended = work.wait("space", "one", first.asset.revision, SECONDS)
    assert ended.asset.body["state"] == "Succeeded"
    assert ended.asset.body["size"] == 7
    assert ended.log == "half of it\n"
    assert begun(stores).get("space", "one").log == "half of it\n"


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (InvalidArgument("It is too wide.", hint="Fold it.", width=9), "It is too wide."),
        (KeyError("x"), "KeyError: 'x'."),
    ],
)
def test_work_that_fails_says_why(stores: Stores, error: Exception, problem: str) -> None:
    work = begun(stores)

    def fail(log_line):
        raise error

    first = work.begin(OWNER, "space", "one", {}, fail)
    ended = work.wait("space", "one", first.asset.revision, SECONDS)
    assert ended.asset.body["state"] == "Failed"
    assert ended.asset.body["error"]["problem"] == problem


def test_a_name_is_worked_on_once_at_a_time_and_again_later(stores: Stores) -> None:
    work, gate = begun(stores), threading.Event()
    first = work.begin(OWNER, "space", "one", {}, lambda log_line: {"waited": gate.wait(SECONDS)})
    with pytest.raises(Conflict):
        work.begin(OWNER, "space", "one", {}, lambda log_line: {})
    gate.set()
    work.wait("space", "one", first.asset.revision, SECONDS)
    again = work.begin(OWNER, "space", "one", {}, lambda log_line: {"turn": 2})
    assert work.wait("space", "one", again.asset.revision, SECONDS).asset.body["turn"] == 2


def test_what_a_killed_service_left_running_has_failed_at_the_next_start(stores: Stores) -> None:
    gate = threading.Event()
    killed = begun(stores)
    killed.begin(OWNER, "space", "one", {}, lambda log_line: {"waited": gate.wait(SECONDS)})
    try:
        started = begun(stores)
        started.fail_interrupted()
        assert started.get("space", "one").asset.body["state"] == "Failed"
    finally:
        gate.set()


def test_a_wait_ends_with_its_time(stores: Stores) -> None:
    work, gate = begun(stores), threading.Event()
    first = work.begin(OWNER, "space", "one", {}, lambda log_line: {"waited": gate.wait(SECONDS)})
    try:
        assert work.wait("space", "one", first.asset.revision, 0.01).is_running
    finally:
        gate.set()


def test_a_wait_for_work_that_has_ended_does_not_wait(stores: Stores) -> None:
    work = begun(stores)
    first = work.begin(OWNER, "space", "one", {}, lambda log_line: {})
    ended = work.wait("space", "one", first.asset.revision, SECONDS)
    begun_at = monotonic()
    assert work.wait("space", "one", ended.asset.revision, SECONDS).asset == ended.asset
    assert monotonic() - begun_at < SECONDS / 2


def test_what_was_never_begun_is_not_found(stores: Stores) -> None:
    with pytest.raises(NotFound, match="nothing"):
        begun(stores).get("space", "nothing")


def test_a_run_replaces_what_it_has_made_itself_and_nothing_else(stores: Stores) -> None:
    work = begun(stores)
    run = Principal(Role.RUN, run_id="r", workspace="space")  # type: ignore[arg-type]
    stores.runs.create(a_run("r", workspace="space"))
    for who, name in ((OWNER, "owners"), (run, "runs")):
        first = work.begin(who, "space", name, {}, lambda log_line: {})
        assert first.asset.created_by == who.name
        work.wait("space", name, first.asset.revision, SECONDS)
    again = work.begin(run, "space", "runs", {}, lambda log_line: {})
    assert work.wait("space", "runs", again.asset.revision, SECONDS).asset.created_by == "run:r"
    with pytest.raises(Forbidden, match="owners"):
        work.begin(run, "space", "owners", {}, lambda log_line: {})
