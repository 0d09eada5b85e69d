"""Runs that a service with the lease keeps in memory."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import event, text

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import AlreadyExists, Conflict, NotFound, StandingBy
from runyard.core.ports.stores import MetricStore, RunStore
from runyard.core.records.lineage import DatasetUse, Direction
from runyard.core.records.runs import RunEvent, RunId, RunStatus
from runyard.storage.sql import database as database_module
from runyard.storage.sql.lease import LEASE_SECONDS, LeaseHolder, ServiceLease
from runyard.storage.sql.recent_runs import RecentRun
from runyard.storage.sql.runs import SqlRunStore
from runyard.storage.sql.stores import Stores, open_stores
from runyard.testing.records import AT, a_run
from runyard.testing.run_store_suite import RunListingSuite, RunStoreSuite

ME = LeaseHolder("host", "boot", 1, "/home", "http://here", "1:1", "1", "")
R1 = RunId("r1")


def lease_of(stores: Stores, *, is_dead: bool = False) -> ServiceLease:
    return ServiceLease(stores.database, ME, lambda _: is_dead)


@pytest.fixture
def holding(stores: Stores) -> Stores:
    """The stores of a service that has the lease."""
    assert lease_of(stores).take() is None
    return stores


@pytest.fixture
def other(database_url: str) -> Iterator[Stores]:
    """Another process on the same database; as a tool it needs no lease."""
    opened = open_stores(database_url)
    yield opened
    opened.close()


class TestRunStoreWithLease(RunStoreSuite):
    @pytest.fixture
    def store(self, holding: Stores) -> RunStore:
        return holding.runs


class TestRunListingWithLease(RunListingSuite):
    @pytest.fixture
    def store(self, holding: Stores) -> RunStore:
        return holding.runs

    @pytest.fixture
    def metrics(self, holding: Stores) -> MetricStore:
        return holding.metrics


def set_message(other: Stores, message: str) -> None:
    """Write behind the back of the service, to see where it reads."""
    with other.database.write() as connection:
        connection.execute(text("UPDATE runs SET message = :message"), {"message": message})


def test_a_written_run_is_read_from_memory(holding: Stores, other: Stores) -> None:
    created = holding.runs.create(a_run())
    set_message(other, "changed")
    assert holding.runs.get(R1) is created
    moved = holding.runs.move(created, RunStatus.QUEUED)
    assert holding.runs.get(R1) is moved


def test_memory_has_what_a_read_returns(holding: Stores, other: Stores) -> None:
    given = a_run(
        definition={"script": "a.py", "tuple": (1, 2), "not a number": float("inf"), "big": 2**70},
        tags={"nul": "x\0y", "half": "\ud800"},
        message="nul \0 and half \ud800",
        created_at=AT.astimezone(timezone(timedelta(hours=2))),
    )
    created = holding.runs.create(given)
    running = holding.runs.move(created, RunStatus.RUNNING, error={"pair": (1, 2)}, warnings=["w\ud800"])
    for known in (holding.runs.get(R1), running):
        assert known == other.runs.get(R1)
        assert known.created_at.isoformat() == other.runs.get(R1).created_at.isoformat()
        assert isinstance(known.definition.raw["tuple"], list)
    assert holding.runs.events(R1) == other.runs.events(R1)


def test_a_service_without_the_lease_reads_the_database(stores: Stores, other: Stores) -> None:
    stores.runs.create(a_run())
    set_message(other, "changed")
    assert stores.runs.get(R1).message == "changed"


def test_nothing_is_read_from_memory_after_the_lease_was_taken_over(holding: Stores, other: Stores) -> None:
    created = holding.runs.create(a_run())
    assert lease_of(other, is_dead=True).take() is None
    with pytest.raises(StandingBy):
        holding.runs.move(created, RunStatus.QUEUED)
    other.runs.move(created, RunStatus.CANCELED)
    assert holding.runs.get(R1).status is RunStatus.CANCELED
    assert [one.text for one in holding.runs.events(R1)] == ["NotStarted", "Canceled"]


def test_nothing_is_read_from_memory_after_the_lease_was_released(stores: Stores, other: Stores) -> None:
    lease = lease_of(stores)
    lease.take()
    created = stores.runs.create(a_run())
    lease.release()
    other.runs.move(created, RunStatus.CANCELED)
    assert stores.runs.get(R1).status is RunStatus.CANCELED


def test_a_lease_taken_again_begins_with_an_empty_memory(stores: Stores, other: Stores) -> None:
    lease = lease_of(stores)
    lease.take()
    created = stores.runs.create(a_run())
    lease.release()
    other.runs.move(created, RunStatus.CANCELED)
    assert lease.take() is None
    assert stores.runs.get(R1).status is RunStatus.CANCELED


def test_a_service_that_was_paused_longer_than_its_lease_reads_the_database(
    holding: Stores, other: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding.runs.create(a_run())
    set_message(other, "changed")
    assert holding.runs.get(R1).message == ""
    later = database_module.boot_seconds() + LEASE_SECONDS
    monkeypatch.setattr(database_module, "boot_seconds", lambda: later)
    ends_with_process = holding.database.is_sqlite
    assert holding.runs.get(R1).message == ("" if ends_with_process else "changed")


def test_a_renewed_lease_lets_the_service_read_from_memory_again(
    stores: Stores, other: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lease_of(stores)
    lease.take()
    stores.runs.create(a_run())
    set_message(other, "changed")
    later = database_module.boot_seconds() + LEASE_SECONDS
    monkeypatch.setattr(database_module, "boot_seconds", lambda: later)
    monkeypatch.setattr("runyard.storage.sql.lease.boot_seconds", lambda: later)
    assert lease.renew()
    assert stores.runs.get(R1).message == ""


def test_a_move_from_memory_is_guarded_by_the_stored_version(holding: Stores, other: Stores) -> None:
    created = holding.runs.create(a_run())
    other.runs.move(created, RunStatus.QUEUED)
    with pytest.raises(Conflict, match="it is Queued now"):
        holding.runs.move(created, RunStatus.CANCELED)
    assert holding.runs.get(R1).status is RunStatus.QUEUED
    assert [one.text for one in other.runs.events(R1)] == ["NotStarted", "Queued"]


def test_an_update_from_memory_merges_with_the_stored_version(holding: Stores, other: Stores) -> None:
    holding.runs.create(a_run())
    other.runs.update(R1, tags={"theirs": "1"})
    assert holding.runs.update(R1, tags={"ours": "2"}).tags == {"theirs": "1", "ours": "2"}
    assert holding.runs.get(R1).tags == {"theirs": "1", "ours": "2"}


def test_a_deleted_run_is_gone_from_memory(holding: Stores) -> None:
    holding.runs.create(a_run(status=RunStatus.COMPLETED))
    holding.runs.delete(R1)
    with pytest.raises(NotFound):
        holding.runs.get(R1)
    with pytest.raises(NotFound):
        holding.runs.events(R1)


def test_a_run_deleted_by_another_process_cannot_move(holding: Stores, other: Stores) -> None:
    created = holding.runs.create(a_run())
    with other.database.write() as connection:
        connection.execute(text("DELETE FROM runs"))
    with pytest.raises(NotFound):
        holding.runs.move(created, RunStatus.CANCELED)
    with pytest.raises(NotFound):
        holding.runs.get(R1)


def test_a_deleted_workspace_takes_its_runs_along(holding: Stores) -> None:
    run = holding.runs.create(a_run(status=RunStatus.COMPLETED))
    holding.assets.delete_workspace(run.workspace)
    with pytest.raises(NotFound):
        holding.runs.get(R1)


def test_dropped_points_and_notes_and_dataset_uses_are_seen(holding: Stores) -> None:
    holding.runs.create(a_run())
    assert holding.lineage.of_run(R1) == ()
    holding.metrics.append(R1, "metrics", 0, 10, [], dropped=3)
    assert holding.runs.get(R1).dropped_points == 3
    holding.runs.update(R1, message="hi")
    assert holding.runs.get(R1).dropped_points == 3
    holding.runs.add_event(R1, RunEvent(AT, "note", "here"))
    assert [one.text for one in holding.runs.events(R1)] == ["NotStarted", "here"]
    holding.runs.create(a_run("r2"))
    use = DatasetUse(RunId("r2"), Direction.INPUT, "data", "d", "mnist", 1, "Mount", AT)
    holding.lineage.record([use])
    assert list(holding.lineage.of_run(RunId("r2"))) == [use]


def test_an_imported_run_is_read_after_one_of_its_id_was_deleted(holding: Stores, other: Stores) -> None:
    holding.runs.create(a_run(status=RunStatus.COMPLETED, message="before"))
    rows = holding.transfer.rows(R1)
    rows["run"]["message"] = "imported"
    holding.runs.delete(R1)
    holding.transfer.insert("w", rows, [])
    assert holding.runs.get(R1).message == "imported"
    assert holding.runs.get(R1) == other.runs.get(R1)


def test_a_run_whose_commit_failed_is_read_from_the_database(holding: Stores, other: Stores) -> None:
    created = holding.runs.create(a_run())
    fail = Mock(side_effect=[ConnectionError("gone")])
    event.listen(holding.database.engine, "commit", fail)
    with pytest.raises(ConnectionError):
        holding.runs.move(created, RunStatus.QUEUED)
    event.remove(holding.database.engine, "commit", fail)
    set_message(other, "changed")
    assert holding.runs.get(R1) == replace(created, message="changed")


def test_a_write_that_began_before_a_deletion_is_not_kept(holding: Stores) -> None:
    recent = holding.database.recent_runs
    created = holding.runs.create(a_run(status=RunStatus.COMPLETED))
    with recent.writing(R1) as write:
        write.written = write.known()
        assert write.written is not None
        deleting = threading.Thread(target=holding.runs.delete, args=(R1,))
        deleting.start()
        deleting.join()
    assert recent.get(created.id) is None


def test_the_newer_of_two_writes_is_kept(holding: Stores) -> None:
    recent = holding.database.recent_runs
    first = holding.runs.create(a_run())
    with recent.writing(R1) as write:
        write.written = write.known()
        newer = holding.runs.update(R1, message="newer")
    assert (first.version, recent.get(R1).run) == (1, newer)  # type: ignore[union-attr]


def test_old_runs_leave_the_memory(holding: Stores, other: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.storage.sql.recent_runs._MOST_RUNS", 2)
    for number in range(3):
        holding.runs.create(a_run(f"r{number}"))
    set_message(other, "changed")
    assert [holding.runs.get(RunId(f"r{number}")).message for number in range(3)] == ["changed", "", ""]


def test_an_event_of_a_run_that_is_being_deleted_finds_no_run(holding: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    created = holding.runs.create(a_run())
    monkeypatch.setattr("runyard.storage.sql.runs.run_key", lambda *_: created.sequence + 1)
    with pytest.raises(NotFound):
        holding.runs.add_event(R1, RunEvent(AT, "note", "late"))
    assert holding.runs.get(R1) == created


def test_a_taken_id_keeps_the_run_that_has_it(holding: Stores) -> None:
    created = holding.runs.create(a_run())
    with pytest.raises(AlreadyExists):
        holding.runs.create(a_run(definition=RunDefinition({"script": "other.py"})))
    assert holding.runs.get(R1) == created


def test_a_deleted_run_does_not_change_the_run_that_got_its_sequence(holding: Stores) -> None:
    """SQLite gives the highest sequence again once its run was deleted."""
    gone = holding.runs.create(a_run(status=RunStatus.COMPLETED))
    holding.runs.delete(R1)
    other_run = holding.runs.create(a_run("r2"))
    as_before = replace(gone, sequence=other_run.sequence)
    assert isinstance(holding.runs, SqlRunStore)
    with holding.database.write() as connection:
        assert holding.runs._update(connection, RecentRun(as_before), {"message": "wrong"}) is None
    assert holding.runs.get(other_run.id) == other_run


@pytest.mark.parametrize("large", [{"definition": {"text": "x" * 100_000}}, {"environment_lock": "x" * 100_000}])
def test_a_large_run_is_not_kept(holding: Stores, large: dict[str, Any]) -> None:
    created = holding.runs.create(a_run(**large))
    assert holding.database.recent_runs.get(R1) is None
    assert holding.runs.get(R1) == created


def test_a_run_that_became_large_leaves_the_memory(holding: Stores) -> None:
    holding.runs.create(a_run())
    changed = holding.runs.update(R1, environment_lock="x" * 100_000)
    assert holding.database.recent_runs.get(R1) is None
    assert holding.runs.get(R1) == changed
