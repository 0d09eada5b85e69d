"""The run store while its process holds the lease: `get` answers from memory, and never with an old record."""

import random
from collections.abc import Iterator

import pytest
from sqlalchemy import event

from runyard.core.errors import Conflict, NotFound
from runyard.core.ports.stores import RunStore
from runyard.core.records.runs import RunId, RunStatus
from runyard.storage.sql.lease import LeaseHolder, ServiceLease
from runyard.storage.sql.recent_runs import RecentRuns
from runyard.storage.sql.stores import Stores, open_stores
from runyard.testing.race import race
from runyard.testing.records import a_run, scalars
from runyard.testing.run_store_suite import RunStoreSuite

R1 = RunId("r1")


@pytest.fixture
def stores(database_url: str) -> Iterator[Stores]:
    opened = open_stores(database_url)
    facts = dict.fromkeys(LeaseHolder.__dataclass_fields__, "") | {"pid": 1}
    assert ServiceLease(opened.database, LeaseHolder(**facts), lambda other: True).take() is None
    yield opened
    opened.close()


class TestRunStoreThatHoldsTheLease(RunStoreSuite):
    @pytest.fixture
    def store(self, stores: Stores) -> RunStore:
        return stores.runs


def test_a_run_that_was_written_is_not_read_again(stores):
    statements = _count_statements(stores)
    stores.runs.create(a_run())
    moved = stores.runs.move(stores.runs.get(R1), RunStatus.STARTING)
    before = len(statements)
    assert stores.runs.get(R1) is moved
    assert len(statements) == before


def test_a_move_reads_no_row(stores):
    stores.runs.create(a_run())
    seen = stores.runs.get(R1)
    statements = _count_statements(stores)
    stores.runs.move(seen, RunStatus.STARTING)
    assert not [text for text in statements if text.startswith("SELECT runs")]


def test_a_move_from_an_old_record_is_refused(stores):
    seen = stores.runs.create(a_run())
    stores.runs.update(R1, message="later")
    with pytest.raises(Conflict, match="changed by somebody else"):
        stores.runs.move(seen, RunStatus.STARTING)
    assert stores.runs.get(R1).status is RunStatus.NOT_STARTED


def test_dropped_points_show_in_the_next_read(stores):
    stores.runs.create(a_run())
    stores.runs.get(R1)
    stores.metrics.append(R1, "0-1-a.jsonl", 0, 10, [scalars("loss", 1.0)], dropped=7)
    assert stores.runs.get(R1).dropped_points == 7


def test_a_deleted_run_is_gone(stores):
    stores.runs.create(a_run(status=RunStatus.COMPLETED))
    stores.runs.get(R1)
    stores.runs.delete(R1)
    with pytest.raises(NotFound):
        stores.runs.get(R1)


def test_a_write_that_fails_leaves_what_is_stored(stores):
    stores.runs.create(a_run(properties={"a": "1"}))
    with pytest.raises(Conflict):
        stores.runs.update(R1, properties={"a": "2"})
    assert stores.runs.get(R1).properties == {"a": "1"}


def test_many_writers_and_readers_leave_no_old_record(stores):
    ids = [RunId(f"r{number}") for number in range(4)]
    for run_id in ids:
        stores.runs.create(a_run(run_id))

    def work(number: int) -> None:
        choose = random.Random(number)
        for turn in range(40):
            run_id = choose.choice(ids)
            if choose.random() < 0.5:
                stores.runs.get(run_id)
            else:
                stores.runs.update(run_id, message=f"{number}-{turn}")

    race(work)
    for run_id in ids:
        assert stores.runs.get(run_id) == _stored(stores, run_id)


def test_a_reader_that_is_slow_keeps_no_old_record():
    recent, old, new = RecentRuns(), a_run(message="old"), a_run(message="new", version=2)
    mark = recent.mark(R1)
    with recent.writing(R1) as write:
        write.record = new
    recent.keep(old, mark)
    assert recent.find(R1) is new


def test_of_two_writers_at_once_the_first_to_end_is_not_kept():
    recent = RecentRuns()
    with recent.writing(R1) as later:
        with recent.writing(R1) as earlier:
            earlier.record = a_run(version=2)
        later.record = a_run(version=3)
    assert recent.find(R1) is None


def test_a_write_of_unknown_outcome_is_read_from_the_database():
    recent = RecentRuns()
    recent.keep(a_run(), recent.mark(R1))
    with pytest.raises(ZeroDivisionError), recent.writing(R1) as write:
        write.record = a_run(version=1 // 0)
    assert recent.find(R1) is None


def test_a_bounded_number_of_runs_is_kept():
    recent = RecentRuns()
    for number in range(600):
        recent.keep(a_run(f"r{number}"), recent.mark(RunId(f"r{number}")))
    assert recent.find(RunId("r0")) is None
    assert recent.find(RunId("r599")) is not None


def _stored(stores, run_id):
    [found] = [run for run in stores.runs.unfinished() if run.id == run_id]
    whole = stores.runs.get(run_id)
    assert (found.version, found.message) == (whole.version, whole.message)
    return whole


def _count_statements(stores) -> list[str]:
    statements: list[str] = []
    event.listen(
        stores.database.engine,
        "before_cursor_execute",
        lambda c, cursor, statement, *rest: statements.append(statement),
    )
    return statements
