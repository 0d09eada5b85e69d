"""Launch plans as JSON, as nodes receive them."""

from collections.abc import Mapping

from runyard.core.record_json import from_json, prepare_reader, to_json
from runyard.errors import Json
from runyard.model.files import FileEntry
from runyard.model.plan import EnvironmentSpec, LaunchPlan
from runyard.planning.passwords import replace_addresses

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


def with_addresses(spec: EnvironmentSpec, addresses: Mapping[str, str]) -> EnvironmentSpec:
    """Spec with the addresses, which contain passwords, in place of their placeholders."""
    if not addresses:
        return spec
    return environment_from_json(replace_addresses(environment_to_json(spec), addresses))
