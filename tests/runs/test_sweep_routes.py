"""What is told of a sweep. Its rows are written behind the service's back, so that nothing moves meanwhile."""

import json
import math
from datetime import timedelta
from typing import Any

import pytest

from runyard.core.records.runs import INTERACTIVE_TARGET, RunId, RunStatus
from runyard.core.records.sweeps import Trial, TrialStop
from runyard.runs.kinds.sweep.checks import SWEEP_TYPE
from runyard.storage.sql.stores import Stores
from runyard.testing.records import AT, a_run, scalars
from tests.attempts import node_of, script_of
from tests.wire_client import PREFIX, WireClient

_S = RunStatus
ASKED = {
    "sampling": {"name": "RANDOM", "parameter_space": {"lr": ["uniform", [0, 1]]}, "properties": {"seed": 7}},
    "policy": {"name": "Default", "properties": {}},
    "primary_metric": {"name": "accuracy", "goal": "maximize"},
    "max_total_runs": 100,
    "max_concurrent_runs": 4,
    "max_duration_minutes": 90,
}
STOP = TrialStop("Bandit", 4, 0.5, 0.9, "Bandit policy at interval 4: 0.5 is below 0.9.")


class WrittenSweep:
    """A sweep that has ended, so that no controller goes on with it, and children that are nobody's to start."""

    def __init__(self, stores: Stores, workspace: str, name: str = "HD", asked: dict[str, Any] | None = None) -> None:
        self.id, self._stores, self._workspace = RunId(f"{name}_{workspace}"), stores, workspace
        definition = {"runyard": {"sweep": asked or ASKED}}
        ended = {"started_at": AT, "ended_at": AT}
        stores.runs.create(
            a_run(self.id, _S.COMPLETED, workspace=workspace, type=SWEEP_TYPE, definition=definition, **ended)
        )

    def child(self, number: int, *values: Any, status: RunStatus = _S.RUNNING, name: str = "accuracy") -> RunId:
        trial = self.trial(number)
        run = a_run(trial.child_id, status, workspace=self._workspace, parent_id=self.id, target=INTERACTIVE_TARGET)
        self._stores.runs.create(run)
        if values:
            self._stores.metrics.append(trial.child_id, "j", 0, 1, [scalars(name, *values)])
        return trial.child_id

    def trial(self, number: int) -> Trial:
        trial = Trial(self.id, number, {"lr": number / 10})
        self._stores.trials.add([trial])
        return trial


@pytest.fixture
def sweep(stores, client):
    return WrittenSweep(stores, client.workspace)


def ranked(client: WireClient, sweep: WrittenSweep, **query: int) -> list[tuple[int, float | None]]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    found = client.get(f"/runs/{sweep.id}/trials?{asked}")["trials"]
    return [(trial["number"], trial["best_primary_metric"]) for trial in found]


def test_the_trials_of_a_resumed_sweep_are_shown_to_who_may_read_it(client, stores):
    """A sweep may name one that is gone, whose id was taken in another workspace afterwards."""
    client.put(f"/workspaces/{client.workspace}-other", {"exist_ok": True})
    own = WrittenSweep(stores, client.workspace, "before")
    other = WrittenSweep(stores, f"{client.workspace}-other", "before")
    resumed = WrittenSweep(stores, client.workspace, "after", {**ASKED, "resume_from": [own.id, other.id]})
    for sweep in (own, other, resumed):
        sweep.child(1, 0.5)
    assert len(ranked(client, resumed, resumed=1)) == 3
    client.interactive_run(f"looks-{client.workspace}")
    script = script_of(client, f"looks-{client.workspace}")
    shown = script.get(f"/runs/{resumed.id}/trials?resumed=1")["trials"]
    assert {trial["run_id"] for trial in shown} == {f"{own.id}_1", f"{resumed.id}_1"}


def test_a_sweep_is_told_with_its_counts_and_its_best(client, stores, sweep):
    sweep.trial(0)  # sampled, and called off with the sweep before it had a run
    ends = (_S.COMPLETED, _S.COMPLETED, _S.FAILED, _S.CANCELED, _S.CANCELED, _S.RUNNING, _S.CANCEL_REQUESTED)
    for number, status in enumerate(ends, start=1):
        sweep.child(number, 0.5, number / 10, status=status)
    stores.trials.stop(sweep.id, 5, STOP)
    stores.trials.stop(sweep.id, 7, STOP)  # on its way, not canceled yet
    told = client.get(f"/runs/{sweep.id}/sweep")
    assert told["counts"] == {
        "sampled": 8,
        "waiting": 0,
        "running": 2,
        "completed": 2,
        "failed": 1,
        "canceled": 3,
        "stopped": 1,
    }
    assert (told["best"]["run_id"], told["best"]["best_primary_metric"]) == (f"{sweep.id}_7", 0.7)
    assert (told["sweep"], told["seed"], told["logged"]) == (ASKED, 7, {})
    assert told["ends_at"] == (AT + timedelta(minutes=90)).isoformat().replace("+00:00", "Z")


def test_a_sweep_whose_children_log_something_else_tells_what(client, sweep):
    sweep.child(0, 0.5, name="acuracy")
    sweep.child(1, 0.7, name="acuracy")
    sweep.child(2, "high", math.nan)
    told = client.get(f"/runs/{sweep.id}/sweep")
    assert (told["best"], told["logged"]) == (None, {"acuracy": 2, "accuracy": 1})


def test_a_sweep_without_trials_is_told_too(client, sweep):
    told = client.get(f"/runs/{sweep.id}/sweep")
    assert (told["counts"]["sampled"], told["best"], told["logged"]) == (0, None, {})
    assert client.get(f"/runs/{sweep.id}/trials")["trials"] == []


def test_trials_whose_runs_ended_so_are_left_out(client, sweep):
    for number, end in enumerate((_S.FAILED, _S.CANCELED, _S.COMPLETED)):
        sweep.child(number, 0.9 - number / 10, status=end)
    path = f"/runs/{sweep.id}/trials?top=1&leave_out="
    asked = {"": 0, "Failed": 1, "Failed,Canceled": 2}
    assert {out: client.get(path + out)["trials"][0]["number"] for out in asked} == asked
    refused = client.refusal("GET", path + "Lost")
    assert (refused["status"], refused["problem"][:24]) == (400, "There is no status 'Lost")


def test_a_trial_goes_with_its_run(client, sweep):
    for number in range(2):
        sweep.child(number, 0.9, status=_S.COMPLETED)
    client.delete(f"/runs/{sweep.id}_1")
    assert ranked(client, sweep) == [(0, 0.9)]
    assert client.get(f"/runs/{sweep.id}/sweep")["counts"]["sampled"] == 1


def test_a_trial_is_told_with_its_values_and_why_it_was_stopped(client, stores, sweep):
    sweep.child(0, 0.25, math.inf, 0.5, status=_S.CANCELED)
    stores.trials.stop(sweep.id, 0, STOP)
    sweep.trial(1)
    told = client.get(f"/runs/{sweep.id}/trials")
    stopped, waiting = told["trials"]
    assert told["primary_metric"] == {"name": "accuracy", "goal": "maximize"}
    assert json.loads(stopped.pop("hyperparameters")) == {"lr": 0.0}
    assert stopped == {
        "run_id": f"{sweep.id}_0",
        "number": 0,
        "best_primary_metric": 0.5,
        "status": "Canceled",
        "intervals": 3,
        "stop": vars(STOP),
    }
    assert (waiting["status"], waiting["best_primary_metric"], waiting["stop"]) == ("NotStarted", None, None)


def test_the_order_is_the_callers(client, sweep):
    sweep.child(0, 0.5)
    sweep.child(1)
    sweep.child(2, 0.9, 0.1)
    sweep.child(3, 0.7)
    assert ranked(client, sweep) == [(2, 0.9), (3, 0.7), (0, 0.5), (1, None)]
    assert ranked(client, sweep, reverse=1) == [(0, 0.5), (3, 0.7), (2, 0.9), (1, None)]
    assert ranked(client, sweep, top=2) == [(2, 0.9), (3, 0.7)]
    assert ranked(client, sweep, top=2, reverse=1) == [(0, 0.5), (3, 0.7)]
    assert ranked(client, sweep, discard_no_metric=1) == [(2, 0.9), (3, 0.7), (0, 0.5)]
    assert ranked(client, sweep, top=4, reverse=1, discard_no_metric=1) == [(0, 0.5), (3, 0.7), (2, 0.9)]
    assert ranked(client, sweep, top=9) == ranked(client, sweep, top=0) == ranked(client, sweep)


def test_a_sweep_that_minimizes_has_its_lowest_first(client, stores):
    asked = {**ASKED, "primary_metric": {"name": "loss", "goal": "minimize"}}
    sweep = WrittenSweep(stores, client.workspace, asked=asked)
    sweep.child(0, 0.5, 0.2, name="loss")
    sweep.child(1, 0.1, 0.9, name="loss")
    assert ranked(client, sweep) == [(1, 0.1), (0, 0.2)]
    assert ranked(client, sweep, reverse=1) == [(0, 0.2), (1, 0.1)]


def test_trials_of_the_sweeps_that_it_resumed_from_come_on_request(client, stores):
    earlier = WrittenSweep(stores, client.workspace, "HD_earlier")
    earlier.child(3, 0.8)
    later = WrittenSweep(stores, client.workspace, asked={**ASKED, "resume_from": [earlier.id, "HD_deleted"]})
    later.child(0, 0.7)
    assert ranked(client, later) == [(0, 0.7)]
    assert ranked(client, later, resumed=1) == [(3, 0.8), (0, 0.7)]
    assert client.get(f"/runs/{later.id}/sweep")["best"]["run_id"] == f"{later.id}_0"


@pytest.mark.parametrize("route", ["sweep", "trials"])
def test_a_run_that_is_no_sweep_has_neither(client, sweep, route):
    child = sweep.child(0)
    refused = client.refusal("GET", f"/runs/{child}/{route}")
    assert (refused["status"], refused["code"]) == (404, "not_found")
    assert f"Run '{child}' is no sweep" in refused["problem"]
    assert client.refusal("GET", f"/runs/nobody/{route}")["code"] == "not_found"


@pytest.mark.parametrize("query", ["top=-1", "top=many", "top=1e3", "top=" + "9" * 30, "reverse=perhaps"])
def test_a_question_that_makes_no_sense_is_refused(client, sweep, query):
    refused = client.refusal("GET", f"/runs/{sweep.id}/trials?{query}")
    assert (refused["status"], refused["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize("route", ["sweep", "trials"])
def test_a_child_and_every_script_of_the_workspace_read_a_sweep_and_nobody_else(client, service, stores, sweep, route):
    address = f"/runs/{sweep.id}/{route}"
    whole = client.get(address) if route == "sweep" else None
    child, other = sweep.child(0), client.interactive_run(f"other-{client.workspace}")["id"]
    told = script_of(client, child).get(address)
    assert told == script_of(client, other).get(address)
    assert whole is None or told["counts"] == {**whole["counts"], "sampled": 1, "running": 1}
    assert node_of(client, child).refusal("GET", address)["status"] == 403
    assert client.with_token("").ask("GET", PREFIX + address).status == 401
    elsewhere = WireClient(service["url"], service["token"], workspace=f"{client.workspace}-elsewhere")
    elsewhere.put(elsewhere.here, {"exist_ok": True})
    stranger = elsewhere.interactive_run(f"stranger-{client.workspace}")["id"]
    assert script_of(elsewhere, stranger).refusal("GET", address)["status"] == 403
