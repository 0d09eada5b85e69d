"""A plan whose addresses are filled in later is the plan that would have been made with them."""

import json
from dataclasses import replace

import pytest

from runyard.core.plan_json import address_placeholder, plan_to_json, with_node_addresses
from tests.runs.golden_plans import on_nodes, tensorflow, torch

FAR = ("10.0.0.11", "10.0.0.12")
OPEN = tuple(address_placeholder(node, 2) for node in range(2))


@pytest.mark.parametrize("run", [torch("Gloo", 2, 4), tensorflow("1.13", 2, 1), tensorflow("2.3", 2, 0)])
def test_filled_in_is_as_made(run) -> None:
    made, left_open = (on_nodes(run, 2, addresses=addresses, shares_files=False) for addresses in (FAR, OPEN))
    assert with_node_addresses(plan_to_json(left_open), FAR) == json.loads(json.dumps(plan_to_json(made)))
    assert with_node_addresses(plan_to_json(replace(left_open, node=1)), FAR) == with_node_addresses(
        plan_to_json(replace(made, node=1)), ()
    )


def test_a_run_on_one_node_leaves_nothing_open() -> None:
    assert address_placeholder(0, 1) == "127.0.0.1"
