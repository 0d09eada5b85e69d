"""Addresses of nodes that are not known when a plan is made: the engine's own queue gives them later."""

import json
from collections.abc import Sequence
from typing import Any

from runyard.errors import Json


def open_address(node: int, node_count: int) -> str:
    """What stands for the address of a node in a plan. A run on one node needs none but its own."""
    return "127.0.0.1" if node_count == 1 else f"<address:{node}>"


def with_addresses(plan: Json, addresses: Sequence[str]) -> Json:
    """The plan, as JSON, with the addresses filled in. To be done before any supervisor reads it."""
    text = json.dumps(plan)
    for node, address in enumerate(addresses):
        text = text.replace(f"<address:{node}>", address)
    filled: dict[str, Any] = json.loads(text)
    return filled
