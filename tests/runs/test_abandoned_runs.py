"""What processes that were killed left behind, beside what living ones hold."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.errors import StorageFull
from runyard.core.principal import OWNER
from runyard.core.records.runs import INTERACTIVE_TARGET, RunId, RunStatus
from runyard.runs.history.journals import Journals
from runyard.runs.kinds.interactive import CAUSE, AbandonedRuns
from runyard.server.wiring.core import SystemClock
from runyard.storage.sql.stores import Stores, open_stores
from runyard.testing.records import a_run, a_workspace
from runyard_sdk.interactive import Claim
from tests.grants import access_to

RUN = RunId("run")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    opened.assets.create_workspace(a_workspace())
    opened.runs.create(a_run(RUN, RunStatus.RUNNING, target=INTERACTIVE_TARGET))
    yield opened
    opened.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "interactive" / RUN
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def abandoned(stores: Stores, place: Path) -> AbandonedRuns:
    clock = SystemClock()
    return AbandonedRuns(
        place.parent, stores.runs, Journals(stores.runs, stores.metrics, clock, access_to(stores)), clock
    )


def leave_journal(place: Path, *values: int, rest: str = "") -> Path:
    path = place / f"{RUN}~0-1-abcd.jsonl"
    path.write_text("".join(json.dumps(["m", "loss", value, None, 1.5e9]) + "\n" for value in values) + rest)
    return path


def logged(stores: Stores) -> list[float]:
    return [value for series in stores.metrics.series(RUN) for value in series.values]


def test_the_rest_of_a_journal_is_stored_and_the_run_fails_with_the_cause(
    stores: Stores, place: Path, abandoned: AbandonedRuns
) -> None:
    journal = leave_journal(place, 1, 2, 3, rest='["m","loss",4')
    first_line = len(journal.read_bytes().splitlines(keepends=True)[0])
    journals = Journals(stores.runs, stores.metrics, SystemClock(), access_to(stores))
    journals.append(OWNER, RUN, journal.stem, 0, journal.read_bytes()[:first_line])
    (place / "owner-1").touch()
    abandoned.reconcile()
    run = stores.runs.get(RUN)
    assert (run.status, logged(stores)) == (RunStatus.FAILED, [1, 2, 3])
    assert run.error is not None
    assert run.error["error"]["message"] == CAUSE
    assert not place.exists()


def test_nothing_that_a_living_process_holds_is_touched(stores: Stores, place: Path, abandoned: AbandonedRuns) -> None:
    claim = Claim(str(place))
    (place / "owner-of-the-dead").touch()
    abandoned.reconcile()
    assert stores.runs.get(RUN).status is RunStatus.RUNNING
    assert place.exists()
    claim.release()
    abandoned.reconcile()
    assert stores.runs.get(RUN).status is RunStatus.FAILED


def test_a_run_outlives_a_process_that_only_logged_to_it(stores: Stores, place: Path, abandoned: AbandonedRuns) -> None:
    claim = Claim(str(place))
    journal = leave_journal(place, 7)
    abandoned.reconcile()
    assert (stores.runs.get(RUN).status, logged(stores), journal.exists()) == (RunStatus.RUNNING, [7], False)
    claim.release()


def test_a_run_that_has_ended_keeps_its_end(stores: Stores, place: Path, abandoned: AbandonedRuns) -> None:
    stores.runs.move(stores.runs.get(RUN), RunStatus.COMPLETED)
    leave_journal(place, 7)
    (place / "owner-1").touch()
    abandoned.reconcile()
    assert (stores.runs.get(RUN).status, logged(stores)) == (RunStatus.COMPLETED, [7])
    assert not place.exists()


def test_what_belongs_to_no_run_is_removed(place: Path, abandoned: AbandonedRuns) -> None:
    unknown = place.parent / "unknown"
    place.rename(unknown)
    (unknown / "owner-1").touch()
    (unknown / "unknown~0-1-a.jsonl").write_text("x\n")
    abandoned.reconcile()
    assert not unknown.exists()


def test_a_journal_that_cannot_be_stored_stays_and_does_not_hold_up_the_next(
    stores: Stores, place: Path, abandoned: AbandonedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_journal(place, 7)
    stored = Journals.append

    def full(*_: object) -> int:
        raise StorageFull("The disk is full.")

    monkeypatch.setattr(Journals, "append", full)
    abandoned.reconcile()
    assert logged(stores) == []
    monkeypatch.setattr(Journals, "append", stored)
    abandoned.reconcile()
    assert logged(stores) == [7]


def test_a_link_leads_nowhere(stores: Stores, place: Path, abandoned: AbandonedRuns, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('["m","loss",1,null,1.5e9]\n')
    os.symlink(secret, place / f"{RUN}~0-1-abcd.jsonl")
    abandoned.reconcile()
    assert (logged(stores), secret.exists()) == ([], True)
