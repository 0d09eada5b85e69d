"""Figures of a database, on each kind."""

from datetime import timedelta

import pytest

from runyard.core.errors import StandingBy
from runyard.core.records.runs import RunId, RunStatus
from runyard.storage.sql.statistics import QueueLength, count_runs, database_bytes, ping, status_events
from runyard.storage.sql.stores import Stores
from runyard.testing.records import AT, a_run

LATER = AT + timedelta(minutes=1)


def test_runs_are_counted_by_state_and_queues_by_compute(stores: Stores) -> None:
    stores.runs.create(a_run("r1", RunStatus.QUEUED, target="gpu", created_at=LATER))
    stores.runs.create(a_run("r2", RunStatus.QUEUED, target="gpu"))
    stores.runs.create(a_run("r3", RunStatus.QUEUED, target="cpu", workspace="speech"))
    stores.runs.create(a_run("r4", RunStatus.RUNNING))
    stores.runs.create(a_run("r5", RunStatus.FAILED))
    told = count_runs(stores.database)
    assert set(told.by_status) == {status.value for status in RunStatus}
    assert {status: count for status, count in told.by_status.items() if count} == {
        "Queued": 3,
        "Running": 1,
        "Failed": 1,
    }
    assert told.queues == [QueueLength("vision", "gpu", 2, AT), QueueLength("speech", "cpu", 1, AT)]


def test_an_empty_database_has_every_state(stores: Stores) -> None:
    told = count_runs(stores.database)
    assert set(told.by_status.values()) == {0}
    assert told.queues == []


def test_the_states_of_many_runs_are_read_together(stores: Stores) -> None:
    ids = [RunId(f"r{number}") for number in range(3)]
    for run_id in ids:
        stores.runs.move(stores.runs.create(a_run(run_id)), RunStatus.RUNNING)
    found = status_events(stores.database, [*ids, RunId("gone")])
    assert {run_id: [event.text for event in events] for run_id, events in found.items()} == {
        run_id: ["NotStarted", "Running"] for run_id in ids
    }


def test_a_database_answers_and_has_a_size(stores: Stores) -> None:
    assert ping(stores.database) > 0
    assert database_bytes(stores.database) > 10_000


def test_a_ping_tells_that_another_service_holds_the_lease(stores: Stores) -> None:
    stores.database.fence.epoch = 7
    with pytest.raises(StandingBy):
        ping(stores.database)
