from collections.abc import Sequence
from typing import Any

from runyard.core.principal import OWNER
from runyard.core.records.metrics import MetricBatch
from runyard.core.records.runs import RunId
from runyard.runs.history.journals import Journals
from runyard.storage.sql.metrics import SqlMetricStore
from runyard.storage.sql.stores import Stores
from runyard.testing.clock import FakeClock
from runyard.testing.records import a_run
from tests.grants import access_to

RUN = RunId("r1")
JOURNAL = "r1~0-1-a"
NAMES = 1300


class _Counting(SqlMetricStore):
    """Keeps how many names each transaction wrote."""

    names_at_once: list[int]

    def append(
        self,
        run_id: RunId,
        journal: str,
        start: int,
        end: int,
        batches: Sequence[MetricBatch],
        *more: Any,
        **options: Any,
    ) -> int:
        self.names_at_once.append(len(batches))
        return super().append(run_id, journal, start, end, batches, *more, **options)


def test_a_journal_of_many_names_is_committed_in_pieces(stores: Stores) -> None:
    stores.runs.create(a_run(RUN))
    counting = _Counting(stores.database)
    counting.names_at_once = []
    data = b"".join(b'["m","name %d",%d,null,1.0]\n' % (number, number) for number in range(NAMES))
    assert Journals(stores.runs, counting, FakeClock(), access_to(stores)).append(OWNER, RUN, JOURNAL, 0, data) == len(
        data
    )
    assert max(counting.names_at_once) <= 500
    assert [list(series.values) for series in stores.metrics.series(RUN)] == [[number] for number in range(NAMES)]


def test_a_journal_of_few_names_is_one_transaction(stores: Stores) -> None:
    stores.runs.create(a_run(RUN))
    counting = _Counting(stores.database)
    counting.names_at_once = []
    data = b"".join(b'["m","name %d",%d,null,1.0]\n' % (number % 500, number) for number in range(5000))
    Journals(stores.runs, counting, FakeClock(), access_to(stores)).append(OWNER, RUN, JOURNAL, 0, data)
    assert counting.names_at_once == [500]


def test_more_names_than_a_run_may_have_are_told_in_a_warning(stores: Stores) -> None:
    stores.runs.create(a_run(RUN))
    journals = Journals(stores.runs, stores.metrics, FakeClock(), access_to(stores), most_names=10)
    line = '["m","name %d",1,null,1.0]\n'
    data = "".join(line % number for number in range(12)).encode()
    assert journals.append(OWNER, RUN, JOURNAL, 0, data) == len(data)
    assert journals.append(OWNER, RUN, JOURNAL, len(data), data) == 2 * len(data)
    run = stores.runs.get(RUN)
    [warning] = run.warnings
    assert "more than 10 different metric names" in warning
    assert run.dropped_points == 4
    assert [len(series.values) for series in stores.metrics.series(RUN)] == [2] * 10
