from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.access.attempt_fence import AttemptFence
from runyard.core.errors import AttemptOver
from runyard.core.records.runs import AttemptId, RunId, RunStatus
from runyard.runs.history.notifications import Notifier, NotifyingRunStore
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import a_run, a_workspace


class Counting:
    """A store that counts how often it is asked for a run."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.reads = inner, 0

    def get(self, run_id: RunId) -> Any:
        self.reads += 1
        return self.inner.get(run_id)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Counting]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    stores.assets.create_workspace(a_workspace())
    yield Counting(stores.runs)
    stores.close()


@pytest.fixture
def fence(runs: Counting) -> AttemptFence:
    return AttemptFence(runs)


@pytest.fixture
def noted(runs: Counting, fence: AttemptFence) -> NotifyingRunStore:
    noted = NotifyingRunStore(runs.inner, Notifier(), fence)
    run = noted.create(a_run("r1"))
    noted.move(run, RunStatus.STARTING, ticket="r1.1", attempt=1)
    return noted


def test_the_attempt_of_the_run_is_let_through_without_a_read(noted, fence, runs):
    assert fence.knows(AttemptId("r1.1"))
    for _ in range(3):
        fence.check(AttemptId("r1.1"))
    assert runs.reads == 0


def test_the_next_attempt_shuts_the_one_before_out(noted, fence):
    noted.update(RunId("r1"), ticket="r1.2", attempt=2)
    fence.check(AttemptId("r1.2"))
    with pytest.raises(AttemptOver, match=r"r1\.1 was given up"):
        fence.check(AttemptId("r1.1"))


def test_a_run_that_is_between_attempts_has_none(noted, fence):
    noted.update(RunId("r1"), ticket="")
    with pytest.raises(AttemptOver):
        fence.check(AttemptId("r1.1"))


def test_a_run_that_has_ended_or_gone_has_none(noted, fence):
    noted.move(noted.get(RunId("r1")), RunStatus.FAILED)
    with pytest.raises(AttemptOver, match="Failed"):
        fence.check(AttemptId("r1.1"))
    noted.delete(RunId("r1"))
    with pytest.raises(AttemptOver, match="gone"):
        fence.check(AttemptId("r1.1"))


def test_news_that_come_late_open_nothing_again(noted, fence):
    before = noted.get(RunId("r1"))
    noted.update(RunId("r1"), ticket="r1.2", attempt=2)
    fence.note(before)
    with pytest.raises(AttemptOver):
        fence.check(AttemptId("r1.1"))


def test_a_service_that_has_just_begun_asks_the_database_once(noted, runs):
    fresh = AttemptFence(runs)
    for _ in range(3):
        fresh.check(AttemptId("r1.1"))
    assert runs.reads == 1
