import json
from collections.abc import Sequence
from typing import Any

from runyard.errors import Json


def open_address(node: int, node_count: int) -> str:
    """Placeholder for the address of a node, for an engine whose own queue chooses nodes after the plan is made."""
    return "127.0.0.1" if node_count == 1 else f"<address:{node}>"


def with_addresses(plan: Json, addresses: Sequence[str]) -> Json:
    """Plan (as JSON) with the addresses filled in. Call it before a supervisor reads the plan."""
    text = json.dumps(plan)
    for node, address in enumerate(addresses):
        text = text.replace(f"<address:{node}>", address)
    filled: dict[str, Any] = json.loads(text)
    return filled
