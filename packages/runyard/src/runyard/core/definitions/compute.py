"""Definition of a compute target: its number of nodes, their resources and their site."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runyard.core.definitions.fields import Fields, JsonObject, JsonValue, read_once, shown, whole_number
from runyard.core.errors import InvalidArgument
from runyard.core.records.assets import AssetKind
from runyard.core.records.nodes import DEFAULT_IDLE_SECONDS

PLACE_FIELDS = frozenset({"engine", "address", "settings", "resources"})
"""Fields that choose the machines and their resources; only the owner may set them."""
_RESOURCES: Mapping[str, int] = {"cpu": 10_000, "gpu": 1_000, "memory_gb": 1_000_000}
"""Largest amounts that may be requested of a node."""
_MOST_NODES = 10_000
_MOST_IDLE_SECONDS = 10**9


@dataclass(frozen=True)
class ComputeDefinition:
    """`raw` is stored and shown as it is, unknown fields included."""

    kind: ClassVar[AssetKind] = AssetKind.COMPUTE
    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: JsonObject) -> "ComputeDefinition":
        """Raises InvalidArgument naming the wrong field. Its compute kind checks `settings` and `address`."""
        return cls(raw).checked()

    def checked(self) -> "ComputeDefinition":
        """Read every field and return the definition."""
        _ = self.engine, self.address, self.settings, self.resources
        _ = self.max_nodes, self.idle_seconds, self.vm_priority
        if self.min_nodes > self.max_nodes:
            raise InvalidArgument(f"max_nodes must be at least min_nodes ({self.min_nodes}), got {self.max_nodes}.")
        return self

    @property
    def engine(self) -> str | None:
        """Name of its compute kind, which may not be installed; None for the default kind."""
        engine = self.raw.get("engine")
        return None if engine is None else str(engine)

    @property
    def address(self) -> str | None:
        address = self.raw.get("address")
        if address is not None and not isinstance(address, str):
            raise InvalidArgument(f"address must be a text, got {shown(address)}.")
        return address

    @read_once
    def settings(self) -> Mapping[str, JsonValue]:
        """Settings of its compute kind, without the address."""
        settings = self.raw.get("settings")
        if settings is not None and not isinstance(settings, Mapping):
            raise InvalidArgument(f"settings must be an object, got {shown(settings)}.")
        return {str(name): value for name, value in (settings or {}).items() if value is not None}

    @read_once
    def resources(self) -> Mapping[str, float]:
        """Minimum resources of a node: the given values of `cpu`, `gpu` and `memory_gb`."""
        given = self.raw.get("resources")
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"resources must be an object such as {{'cpu': 4, 'gpu': 1}}, got {shown(given)}.")
        unknown = sorted(str(name) for name in given if name not in _RESOURCES)
        if unknown:
            raise InvalidArgument(f"resources has {unknown[0][:80]!r}; known are {', '.join(_RESOURCES)}.")
        return {name: _amount(name, value) for name, value in given.items() if value is not None}

    @property
    def is_attached(self) -> bool:
        return bool(self.raw.get("is_attached"))

    @read_once
    def min_nodes(self) -> int:
        return self._whole("min_nodes", 0, at_most=_MOST_NODES)

    @read_once
    def max_nodes(self) -> int:
        return self._whole("max_nodes", _MOST_NODES if self.is_attached else None, at_least=1, at_most=_MOST_NODES)

    @read_once
    def idle_seconds(self) -> int:
        return self._whole("idle_seconds_before_scaledown", DEFAULT_IDLE_SECONDS, at_most=_MOST_IDLE_SECONDS)

    @read_once
    def vm_priority(self) -> str:
        priority = Fields(self.raw).text("vm_priority", "dedicated")
        if priority.lower() not in ("dedicated", "lowpriority"):
            raise InvalidArgument(f"vm_priority must be 'dedicated' or 'lowpriority', got {shown(priority)}.")
        return priority

    @property
    def names_a_place(self) -> bool:
        return not PLACE_FIELDS.isdisjoint(self.raw)

    @property
    def own_place(self) -> tuple[JsonValue, ...]:
        """Its own address and settings; empty if the operator's settings apply."""
        own = self.raw.get("address"), self.raw.get("settings")
        return own if any(own) else ()

    @property
    def place(self) -> tuple[JsonValue, ...]:
        return self.raw.get("engine"), *self.own_place

    def is_placed_as(self, other: "ComputeDefinition") -> bool:
        return all(self.raw.get(name) == other.raw.get(name) for name in PLACE_FIELDS)

    def stored(self, place: JsonObject) -> "ComputeDefinition":
        """Fill in defaults for storing, with `engine`, `address` and `settings` as in `place`."""
        rest = {name: value for name, value in self.raw.items() if name not in PLACE_FIELDS}
        return ComputeDefinition(
            {
                "type": "AmlCompute",
                "vm_size": "",
                "description": "",
                "location": "local",
                **rest,
                **place,
                **({"resources": self.resources} if self.resources else {}),
                "vm_priority": self.vm_priority,
                "min_nodes": self.min_nodes,
                "max_nodes": self.max_nodes,
                "idle_seconds_before_scaledown": self.idle_seconds,
                "provisioning_state": "Succeeded",
            }
        )

    def _whole(self, name: str, default: int | None, *, at_least: int = 0, at_most: int) -> int:
        value = self.raw.get(name)
        if value is None and default is not None:
            return default
        return whole_number(value, name, at_least=at_least, at_most=at_most)


def _amount(name: str, value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _RESOURCES[name]:
        raise InvalidArgument(f"resources[{name!r}] must be a number from 0 to {_RESOURCES[name]}, got {shown(value)}.")
    if name == "gpu" and value != int(value):
        raise InvalidArgument(f"resources['gpu'] must be a whole number, got {value!r}: runs do not share a GPU.")
    return float(value) if name == "memory_gb" else value
