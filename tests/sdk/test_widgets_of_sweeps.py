"""What RunDetails makes of a sweep; tests/sdk/test_sweep_details.py shows a real one."""

import html.parser
import json
import re
from typing import Any

import pytest

from azureml.widgets import _notebook, run_details

EVIL = "<script>alert(1)</script>\"'&\x1b[2J"


def trial(number: int, best: float | None, **more: Any) -> dict[str, Any]:
    whole = {"run_id": f"HD_1_{number}", "number": number, "status": "Completed", "best_primary_metric": best}
    whole |= {"hyperparameters": json.dumps({"lr": 0.1 / (number + 1), "layers": [16, number]}), "intervals": 3}
    return {**whole, "stop": None, "why": "", "numbers": [0.1, None, best], **more}


def view(*trials: dict[str, Any], **more: Any) -> dict[str, Any]:
    columns = [
        {"first": one["number"], "last": one["number"], "low": 0.5, "high": 0.5, "best": 0.5 + one["number"]}
        for one in trials
    ]
    return {
        "sweep": {"primary_metric": {"name": "accuracy", "goal": "maximize"}},
        "counts": {"sampled": 4, "running": 1, "completed": 2, "canceled": 1, "stopped": 1},
        "best": trials[0] if trials else None,
        "trials": list(trials),
        "trial_count": len(trials),
        "progress": {"columns": columns, "range": [0.5, 0.5 + len(trials)] if trials else None},
        **more,
    }


def data(seen: dict[str, Any]) -> dict[str, Any]:
    names = {"portal_url": "http://127.0.0.1/x", "run_id": "HD_1", "experiment": "story", "target": "local"}
    return {**names, "status": "Running", "message": "", "error": None, "sweep": seen, "run_metrics": []}


class Tags(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


def test_a_notebook_shows_the_best_so_far_the_children_and_two_drawings() -> None:
    text = _notebook.run_table(data(view(trial(1, 0.9), trial(0, 0.8))))
    assert "<td>0.9 by HD_1_1: lr = 0.05, layers = [16, 1]</td>" in text
    assert "<td>1 running, 2 completed, 1 canceled (1 by the policy)</td>" in text
    assert "<th>accuracy</th>" in text
    assert text.count("<svg") == 2


def test_every_value_of_a_user_is_escaped() -> None:
    hostile = trial(0, 0.5, hyperparameters=json.dumps({EVIL: EVIL}), why=EVIL, status=EVIL)
    seen = view(hostile, trial(1, 0.2, why=EVIL))
    seen["sweep"]["primary_metric"]["name"] = EVIL
    text = _notebook.run_table(data(seen))
    assert "script" not in Tags(text).seen
    assert text.count("&lt;script&gt;") > 5


def test_a_terminal_gets_one_line_for_each_child(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = trial(1, 0.2, why="Bandit policy at interval 3: too low.", status="Canceled")
    run_details._print_sweep(view(trial(0, 0.5), stopped, trial_count=9_002))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Best so far: 0.5 by HD_1_0: lr = 0.1, layers = [16, 0]"
    assert lines[2].split() == ["child", "status", "accuracy", "logged", "lr", "layers", "why"]
    assert lines[4].endswith("Bandit policy at interval 3: too low.")
    assert lines[5] == "  and 9,000 more"


def test_a_long_value_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    run_details._print_sweep(view(trial(0, 0.5, hyperparameters=json.dumps({"note": "x" * 3_000, "many": [1] * 999}))))
    assert max(map(len, capsys.readouterr().out.splitlines())) < 200


def test_control_characters_of_a_value_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run_details._print_sweep(view(trial(0, 0.5, hyperparameters=json.dumps({"name": EVIL + "\nforged"}))))
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "forged" not in [line.strip() for line in printed.splitlines()]


def test_a_sweep_without_children_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    empty = view(counts={"sampled": 0})
    assert "<td>none yet</td>" in _notebook.run_table(data(empty))
    run_details._print_sweep(empty)
    assert capsys.readouterr().out.splitlines() == ["Best so far: none yet", "Children: none yet"]


def test_what_children_logged_instead_of_the_primary_metric_is_named() -> None:
    assert run_details.best_text(view(logged={"loss": 4})) == "none yet, they logged loss"


def test_widget_data_holds_the_lines_of_the_children_that_have_one() -> None:
    seen = view(trial(0, 0.5), trial(1, 0.4, numbers=[]))
    metric = {"name": "accuracy", "run_id": "HD_1_0", "values": [0.1, None, 0.5]}
    assert run_details._sweep_run_metrics(seen) == [metric]
    assert [child["run_id"] for child in run_details._sweep_child_runs(seen)] == ["HD_1_0", "HD_1_1"]


@pytest.mark.parametrize("series", [[[1e308, -1e308, None, 5.0]], [[1.0], [2.0]], [[3.0, 3.0, 3.0]]])
def test_drawings_hold_finite_numbers_alone(series: list[list[float | None]]) -> None:
    drawn = _notebook.line_chart(series)
    assert re.findall(r'(?:points|cx)="([^"]*)"', drawn)
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_a_gap_stands_for_what_is_no_number() -> None:
    assert _notebook.line_chart([[1.0, 2.0, None, 3.0, 4.0]]).count("<polyline") == 2
