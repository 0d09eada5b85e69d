"""The page of tuning against the code that it tells of: names of expressions, and the worked example of each policy."""

import re
from pathlib import Path

import pytest

from azureml.train.hyperdrive import BanditPolicy, MedianStoppingPolicy, TruncationSelectionPolicy
from runyard.runs.kinds.sweep.early_stopping.histories import Histories
from runyard.runs.kinds.sweep.early_stopping.policies import policy_of
from runyard.runs.kinds.sweep.sampling.expressions import KINDS
from runyard.runs.kinds.sweep.spec import checked_sweep
from runyard_sdk.tuning import AshaPolicy

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
WORKED = re.compile(r"^`(\w+)\((.*)\)`:\n\n\| interval \|(.*)\|\n\|[-|]+\n((?:\|.*\|\n)+)", re.MULTILINE)
POLICIES = {
    policy.__name__: policy for policy in (BanditPolicy, MedianStoppingPolicy, TruncationSelectionPolicy, AshaPolicy)
}


def section(heading):
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_page_has_every_expression_with_its_arguments():
    shown = re.findall(r"^\| `(\w+)\(([^)]*)\)`", section("What a value is drawn from"), re.MULTILINE)
    assert [name for name, _ in shown] == list(KINDS)
    counts = {name: len(arguments.split(", ")) for name, arguments in shown if name != "choice"}
    assert counts == {name: len(kind.parameters) for name, kind in KINDS.items() if name != "choice"}


def test_every_policy_that_stops_has_a_worked_example():
    assert [name for name, *_ in WORKED.findall(PAGE)] == list(POLICIES)


@pytest.mark.parametrize(("name", "arguments", "children", "rows"), WORKED.findall(PAGE), ids=lambda text: text[:20])
def test_a_worked_example_is_what_the_policy_does(name, arguments, children, rows):
    spec = sweep_with(POLICIES[name](**keywords(arguments)))
    policy, histories = policy_of(spec), Histories(spec.goal)
    told, stopped = set(), set()
    for row in rows.splitlines():
        interval, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        for child, cell in enumerate(cells):
            if not cell:
                continue
            number, _, note = cell.partition(" ")
            if note == "stopped":
                told.add((child, int(interval)))
            assert histories.append(child, float(number)) == int(interval)
            if policy.judge(child, histories):
                stopped.add((child, int(interval)))
    assert len(children.split("|")) == len(cells)
    assert stopped == told


def keywords(arguments):
    pairs = (argument.split("=") for argument in arguments.split(", "))
    return {name: float(value) if "." in value else int(value) for name, value in pairs}


def sweep_with(policy):
    return checked_sweep(
        {
            "sampling": {"name": "RANDOM", "parameter_space": {"--rate": ["uniform", [0, 1]]}},
            "policy": policy.to_json(),
            "primary_metric": {"name": "accuracy", "goal": "maximize"},
            "max_total_runs": 10,
        }
    )
