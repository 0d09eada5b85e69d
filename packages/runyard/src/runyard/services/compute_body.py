"""What a compute target's body may say, checked before anything is asked."""

from collections.abc import Mapping
from typing import Any

from runyard.compute.targets import ComputeTargets
from runyard.core.definitions.fields import whole_number
from runyard.errors import InvalidArgument
from runyard.model.nodes import DEFAULT_IDLE_SECONDS

PLACE_FIELDS = frozenset({"engine", "address", "settings", "resources"})
"""They say which machines the service talks to and what it takes of them: for its owner alone."""
_RESOURCES: Mapping[str, int] = {"cpu": 10_000, "gpu": 1_000, "memory_gb": 1_000_000}
"""What a node may be asked to have, at most."""
_MOST_NODES = 10_000
_MOST_IDLE_SECONDS = 10**9
Body = Mapping[str, Any]


def checked_compute(body: Body, targets: ComputeTargets) -> dict[str, Any]:
    """The body as it is kept. InvalidArgument names the field that cannot be."""
    place = targets.checked(body)
    if resources := _checked_resources(body.get("resources")):
        place["resources"] = resources
    is_attached = bool(body.get("is_attached"))
    most = _whole(body, "max_nodes", _MOST_NODES if is_attached else None, at_least=1, at_most=_MOST_NODES)
    least = _whole(body, "min_nodes", 0, at_least=0, at_most=_MOST_NODES)
    if least > most:
        raise InvalidArgument(f"max_nodes must be at least min_nodes ({least}), got {most}.")
    idle = _whole(body, "idle_seconds_before_scaledown", DEFAULT_IDLE_SECONDS, at_least=0, at_most=_MOST_IDLE_SECONDS)
    priority = str(body.get("vm_priority") or "dedicated")
    if priority.lower() not in ("dedicated", "lowpriority"):
        raise InvalidArgument(f"vm_priority must be 'dedicated' or 'lowpriority', got {priority!r}.")
    rest = {name: value for name, value in body.items() if name not in PLACE_FIELDS}
    return {
        "type": "AmlCompute",
        "vm_size": "",
        "description": "",
        "location": "local",
        **rest,
        **place,
        "vm_priority": priority,
        "min_nodes": least,
        "max_nodes": most,
        "idle_seconds_before_scaledown": idle,
        "provisioning_state": "Succeeded",
    }


def _checked_resources(given: Any) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"resources must be an object such as {{'cpu': 4, 'gpu': 1}}, got {given!r}.")
    unknown = sorted(str(name) for name in given if name not in _RESOURCES)
    if unknown:
        raise InvalidArgument(f"resources has {unknown[0]!r}; known are {', '.join(_RESOURCES)}.")
    return {name: _amount(name, value) for name, value in given.items() if value is not None}


def _amount(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _RESOURCES[name]:
        raise InvalidArgument(
            f"resources[{name!r}] must be a number from 0 to {_RESOURCES[name]}, got {ascii(value)[:80]}."
        )
    if name == "gpu" and value != int(value):
        raise InvalidArgument(f"resources['gpu'] must be a whole number, got {value!r}: runs do not share a GPU.")
    return float(value) if name == "memory_gb" else value


def _whole(body: Body, name: str, default: int | None, *, at_least: int, at_most: int) -> int:
    value = body.get(name)
    if value is None and default is not None:
        return default
    return whole_number(value, name, at_least=at_least, at_most=at_most)
