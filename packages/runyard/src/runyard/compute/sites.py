import json
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runyard.compute.fields import options_of, read_body, read_variables
from runyard.compute.kind import SiteNeeds
from runyard.compute.registry import LOCAL, AnyKind, ComputeKinds
from runyard.compute.vm_sizes import BUILT_IN, TABLE_VARIABLE, NodeResources, edited_table
from runyard.core.definitions.compute import ComputeDefinition
from runyard.core.definitions.fields import JsonObject, JsonValue
from runyard.core.errors import EngineError, InvalidArgument
from runyard.core.ports.clock import Clock
from runyard.core.ports.engine import Site
from runyard.core.ports.stores import NodeStore
from runyard.core.records.assets import Asset
from runyard.core.settings import Settings


@dataclass(frozen=True)
class ParsedTarget:
    """A compute target's kind, its fields, the operator's settings for its kind, and its place."""

    kind: AnyKind
    target: Any
    settings: Any
    place: str


class TargetParser:
    """Parses and checks compute targets. Targets without `engine` are of the default kind."""

    def __init__(self, kinds: ComputeKinds, default: str = LOCAL, variables: Mapping[str, str] | None = None) -> None:
        self._kinds, self.default, self._variables = kinds, default, variables or {}
        self._settings: dict[str, Any] = {}

    def read(self, given: ComputeDefinition) -> ParsedTarget:
        """Parse a stored target. Raises EngineError where its kind is missing, or its fields are wrong."""
        kind = self._kinds.get(given.engine or self.default)
        try:
            target, settings = read_body(kind.target, _own_fields(given)), self._settings_of(kind)
            return ParsedTarget(kind, target, settings, kind.place(target, settings))
        except InvalidArgument as error:
            raise EngineError(f"Compute kind {kind.name!r} cannot use this target: {error}") from error

    def checked(self, new: ComputeDefinition) -> JsonObject:
        """Check a new target. Returns `engine`, `address` and `settings` to store. Raises InvalidArgument."""
        engine = new.engine
        if engine is not None and engine not in [*self._kinds.names(), *self._kinds.left_out()]:
            known = ", ".join(map(repr, self._kinds.names()))
            raise InvalidArgument(
                f"engine must be one of {known}, got {ascii(engine)[:80]}.", hint="Leave it out for the default."
            )
        kind, given = self._kinds.get(engine or self.default), _own_fields(new)
        options = {one.name: one for one in options_of(kind.target)}
        if _ADDRESS in given and (engine is None or _ADDRESS not in options):
            raise InvalidArgument(
                f"address {ascii(given[_ADDRESS])[:80]} is given, but engine is {engine!r}, which has none.",
                hint="Give the engine that it is an address of.",
            )
        if given and engine is None:
            raise InvalidArgument("settings are given without engine.", hint="Give the engine that they are for.")
        if new.is_attached:
            if not kind.attached_as:
                raise InvalidArgument(f"A cluster of compute kind {kind.name!r} cannot be attached.", hint="Create it.")
            for one in options.values():
                if one.is_required and not given.get(one.name):
                    raise InvalidArgument(f"{one.name} is missing, which a cluster that is attached must have.")
        target = read_body(kind.target, given)
        kind.place(target, self._settings_of(kind))
        read = {name: value for name, value in asdict(target).items() if name in given}
        kept = {"engine": engine, _ADDRESS: read.pop(_ADDRESS, None), "settings": read or None}
        return {name: value for name, value in kept.items() if value is not None}

    def check_settings(self) -> None:
        """Check the operator's settings. Raises InvalidArgument with the name of a wrong variable.

        Kinds without settings are not imported.
        """
        names = self._kinds.names()
        if self.default not in names:
            raise InvalidArgument(
                f"{ENGINE_VARIABLE} is {self.default!r}.", hint=f"Set it to {' or '.join(names) or 'nothing'}."
            )
        for name in names:
            if name == self.default != LOCAL or any(key.startswith(_prefix(name)) for key in self._variables):
                try:
                    kind = self._kinds.get(name)
                except EngineError as error:
                    if name == self.default:
                        raise InvalidArgument(f"{ENGINE_VARIABLE} is {name!r}: {error.problem}") from error
                    continue
                settings = self._settings_of(kind)
                if name == self.default:
                    kind.place(read_body(kind.target, {}), settings)

    def _settings_of(self, kind: AnyKind) -> Any:
        if kind.name not in self._settings:
            self._settings[kind.name] = read_variables(kind.settings, _prefix(kind.name), self._variables)
        return self._settings[kind.name]


class ComputeSites:
    """Sites by place: this machine, and each cluster that a compute target names. Made on first use."""

    def __init__(self, targets: TargetParser, needs: SiteNeeds) -> None:
        self.targets, self._needs = targets, needs
        self._sites: dict[tuple[str, str], Site] = {}
        self._lock = threading.Lock()

    def home(self) -> Site:
        return self._sites.get((LOCAL, "")) or self._at(ComputeDefinition({"engine": LOCAL}))

    def of(self, cluster: Asset) -> Site:
        return self._at(ComputeDefinition(cluster.body))

    def all(self) -> Sequence[Site]:
        home = self.home()
        with self._lock:
            return [home, *(site for site in self._sites.values() if site is not home)]

    def require(self, target: ComputeDefinition) -> None:
        """Check a target's cluster. Raises EngineError where no usable cluster answers. May take seconds."""
        read = self.targets.read(target)
        read.kind.require(read.target, read.settings, self._needs.home)

    def warm(self) -> None:
        """Start in advance what the first run would wait for."""
        if self.targets.default != LOCAL:
            self._at(ComputeDefinition()).warm()
        self.home().warm()

    def close(self) -> None:
        """Close the sites of this service; runs go on."""
        with self._lock:
            for site in self._sites.values():
                site.close()

    def _at(self, target: ComputeDefinition) -> Site:
        read = self.targets.read(target)
        place = read.kind.name, read.place
        with self._lock:
            if place not in self._sites:
                self._sites[place] = read.kind.open_site(read.target, read.settings, self._needs)
            return self._sites[place]


def build_sites(
    settings: Settings,
    home: Path,
    nodes: NodeStore,
    clock: Clock,
    *,
    url: str,
    node_url: str = "",
    node_ca: str = "",
    on_change: Callable[[], None] = lambda: None,
) -> ComputeSites:
    """Make the sites. `url`: the service's address on this machine; `node_url`: for other machines, with `node_ca` the
    certificate that they trust. `on_change` is called, from any thread, when nodes may have become free.

    Raises InvalidArgument with the name of a wrong setting."""
    targets = TargetParser(ComputeKinds(), settings.engine, settings.variables)
    targets.check_settings()
    sizes = read_vm_sizes(settings.vm_sizes)
    return ComputeSites(targets, SiteNeeds(home, nodes, clock, url, node_url or url, node_ca, sizes, on_change))


def read_vm_sizes(file: Path | None) -> Mapping[str, NodeResources]:
    """Built-in table, with the sizes of the operator's file. Raises InvalidArgument with what is wrong in the file."""
    if file is None:
        return BUILT_IN
    try:
        text = file.read_text(encoding="utf-8")
        return edited_table(json.loads(text) if file.suffix == ".json" else tomllib.loads(text))
    except (OSError, ValueError) as e:
        raise InvalidArgument(f"{TABLE_VARIABLE} names {file}, which cannot be read as TOML or JSON: {e}.") from e


ENGINE_VARIABLE = "RUNYARD_ENGINE"
_ADDRESS = "address"


def _prefix(name: str) -> str:
    return f"RUNYARD_{name.upper().replace('-', '_')}_"


def _own_fields(given: ComputeDefinition) -> dict[str, JsonValue]:
    """Fields of its kind."""
    if _ADDRESS in given.settings:
        raise InvalidArgument("address is given in settings.", hint="Give it beside them.")
    return {**given.settings, **({} if given.address is None else {_ADDRESS: given.address})}
