"""What people see of a sweep. Its rows are written behind the service's back, so that nothing moves meanwhile."""

import html
import json
import math
import re
from urllib.parse import urlsplit

import pytest

from runyard.core.records.runs import INTERACTIVE_TARGET, RunId, RunStatus
from runyard.core.records.sweeps import VALUES_TAG, Trial, TrialStop
from runyard.runs.kinds.sweep.checks import SWEEP_TYPE
from runyard.testing.records import a_run, scalars
from tests.server.test_page import Tags

_S = RunStatus
EVIL = "<script>alert(1)</script>\"'&"
STOP = TrialStop("Bandit", 4, 0.5, 0.9, f"Bandit policy at interval 4: {EVIL}")
FAILED = {"error": {"code": "UserError", "message": "ValueError: no data\nat line 3"}}


@pytest.fixture
def sweep(stores, client):
    """The id of an ended one with five hostile children: best is 2; 3 was stopped, 4 has failed."""
    asked = {
        "sampling": {"name": "RANDOM", "parameter_space": {EVIL: ["uniform", [0, 1]]}, "properties": {"seed": 7}},
        "primary_metric": {"name": EVIL, "goal": "maximize"},
        "max_total_runs": 9,
    }
    sweep_id = RunId(f"HD_{client.workspace}")
    definition = {"runyard": {"sweep": asked}}
    made = a_run(sweep_id, _S.COMPLETED, workspace=client.workspace, type=SWEEP_TYPE, definition=definition)
    stores.runs.create(made)
    stores.trials.add([Trial(sweep_id, number, {EVIL: f"{EVIL}{number}", "units": [1, 2]}) for number in range(5)])
    for number, status in enumerate((_S.COMPLETED, _S.COMPLETED, _S.COMPLETED, _S.CANCELED, _S.FAILED)):
        _add_child(stores, client.workspace, sweep_id, number, status)
    stores.trials.stop(sweep_id, 3, STOP)
    return sweep_id


def _add_child(stores, workspace, sweep_id, number, status):
    child = RunId(f"{sweep_id}_{number}")
    tags = {VALUES_TAG: json.dumps({EVIL: EVIL, "depth": 3})}
    more = {"error": FAILED} if status is _S.FAILED else {}
    run = a_run(child, status, workspace=workspace, parent_id=sweep_id, target=INTERACTIVE_TARGET, tags=tags, **more)
    stores.runs.create(run)
    if status is not _S.FAILED:
        numbers = (0.1, math.nan, number / 10 if number < 3 else 0.05)
        stores.metrics.append(child, "j", 0, 1, [scalars(EVIL, *numbers)])


def page_of(client, run_id):
    address = urlsplit(client.get(f"/runs/{run_id}")["web_view"])
    return client.ask("GET", f"{address.path}?{address.query}", authorization="").body.decode()


def test_a_view_holds_the_best_children_and_counts_the_others(client, sweep):
    view = client.get(f"/runs/{sweep}/sweep/view?top=2&lines=1")
    assert [trial["number"] for trial in view["trials"]] == [2, 0]
    assert [trial["numbers"] for trial in view["trials"]] == [[0.1, None, 0.2], []]
    assert (view["trial_count"], view["counts"]["sampled"], view["best"]["number"]) == (5, 5, 2)


def test_a_view_tells_why_a_child_was_stopped_and_why_one_failed(client, sweep):
    trials = {trial["number"]: trial for trial in client.get(f"/runs/{sweep}/sweep/view")["trials"]}
    assert [trials[number]["why"] for number in (0, 3, 4)] == ["", STOP.text, "UserError: ValueError: no data"]


def test_a_view_says_that_a_stop_came_too_late(client, stores, sweep):
    stores.trials.stop(sweep, 2, STOP)
    assert client.get(f"/runs/{sweep}/sweep/view?top=1")["trials"][0]["why"] == f"Too late: {STOP.text}"


def test_a_view_has_the_progress_in_the_order_of_sampling(client, sweep):
    progress = client.get(f"/runs/{sweep}/sweep/view")["progress"]
    assert [column["best"] for column in progress["columns"]] == [0.1, 0.1, 0.2, 0.2]
    assert progress["range"] == [0.1, 0.2]


def test_a_run_that_is_no_sweep_has_no_view(client, sweep):
    assert client.refusal("GET", f"/runs/{sweep}_0/sweep/view")["code"] == "not_found"
    assert client.refusal("GET", f"/runs/{sweep}/sweep/view?top=-1")["status"] == 400


def test_the_page_of_a_sweep_lets_nothing_of_it_become_markup(client, sweep):
    text = page_of(client, sweep)
    tags = Tags(text)
    assert "script" not in tags.seen
    assert tags.open == []
    assert {"svg", "polyline", "line"} <= set(tags.seen)


def test_it_tells_the_best_so_far_and_its_values(client, sweep):
    text = page_of(client, sweep)
    assert "<strong>Best so far 0.2</strong>" in text
    assert html.escape(f"{EVIL} = {EVIL}2, units = [1, 2]") in text
    assert "5 sampled, 3 completed, 1 failed, 1 canceled (1 by the policy)" in text


def test_its_children_come_best_first_with_links_that_open_their_pages(client, sweep):
    text = page_of(client, sweep).partition("<h2>Children (5)</h2>")[2]
    links = re.findall(r'<a href="(/runs/[^"]*)">child (\d)</a>', text)
    assert [number for _, number in links] == ["2", "0", "1", "3", "4"]
    opened = client.ask("GET", html.unescape(links[0][0]), authorization="")
    assert (opened.status, f"{sweep}_2" in opened.body.decode()) == (200, True)
    assert "ValueError: no data" in text
    assert html.escape(STOP.text) in text


def test_the_page_of_a_child_has_its_values_and_opens_no_other_page(client, sweep):
    text = page_of(client, f"{sweep}_1")
    trial = text.partition(f"<h2>Trial of sweep {sweep}</h2>")[2].partition("</section>")[0]
    assert f"<td>{html.escape(EVIL)}</td><td>{html.escape(EVIL)}</td>" in trial
    assert "<td>depth</td><td>3</td>" in trial
    assert not [link for link in Tags(text).links if not link.startswith(f"/runs/{sweep}_1/files/")]


@pytest.mark.parametrize("tag", ["no JSON", "[1, 2]", "null", "[" * 100_000])
def test_a_child_whose_tag_was_rewritten_still_has_a_page(client, sweep, tag):
    client.patch(f"/runs/{sweep}_1", {"tags": {VALUES_TAG: tag}})
    assert f"Trial of sweep {sweep}" in page_of(client, f"{sweep}_1")


def test_a_page_of_many_children_shows_a_hundred_and_counts_the_rest(client, stores, sweep):
    stores.trials.add([Trial(sweep, number, {"lr": 0.5}) for number in range(5, 2_005)])
    text = page_of(client, sweep)
    assert "<h2>Children (2,005)</h2>" in text
    assert text.count(">child ") == 101  # and the best above them
    assert "1,905 more are not shown" in text
    assert len(text) < 200_000
