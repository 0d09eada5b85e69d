"""Launch plans as JSON, as nodes receive them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.core.errors import Json
from runyard.core.record_json import from_json, prepare_reader, to_json
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import EnvironmentSpec, LaunchPlan
from runyard.core.url_secrets import replace_urls

_ROWS = (FileEntry,)


def plan_to_json(plan: LaunchPlan) -> Json:
    return to_json(plan, _ROWS)


def plan_from_json(body: Json) -> LaunchPlan:
    """Parse a plan. Unknown fields are ignored: the service may be newer than the node."""
    return from_json(LaunchPlan, body, "The plan")


def prepare_plan_reader() -> None:
    """Load the plan reader before forking children that read plans."""
    prepare_reader(LaunchPlan)


def environment_to_json(spec: EnvironmentSpec) -> Json:
    return to_json(spec, _ROWS)


def environment_from_json(body: Mapping[str, object]) -> EnvironmentSpec:
    """Parse an environment. Unknown fields are ignored."""
    return from_json(EnvironmentSpec, body, "environment")


def with_private_addresses(spec: EnvironmentSpec, addresses: Mapping[str, str]) -> EnvironmentSpec:
    """Spec with the addresses, which contain passwords, in place of their placeholders."""
    if not addresses:
        return spec
    return environment_from_json(replace_urls(environment_to_json(spec), addresses))


def address_placeholder(node: int, node_count: int) -> str:
    """Placeholder for the address of a node, for an engine whose own queue chooses nodes after the plan is made."""
    return "127.0.0.1" if node_count == 1 else f"<address:{node}>"


def with_node_addresses(plan: Json, addresses: Sequence[str]) -> Json:
    """Plan (as JSON) with the addresses filled in. Call it before a supervisor reads the plan."""
    text = json.dumps(plan)
    for node, address in enumerate(addresses):
        text = text.replace(f"<address:{node}>", address)
    filled: dict[str, Any] = json.loads(text)
    return filled
