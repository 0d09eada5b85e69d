from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runyard.compute.fields import options_of, read_body, read_variables
from runyard.compute.registry import LOCAL, AnyKind, ComputeKinds
from runyard.core.definitions.compute import ComputeDefinition
from runyard.core.definitions.fields import JsonObject, JsonValue
from runyard.errors import EngineError, InvalidArgument

ENGINE_VARIABLE = "RUNYARD_ENGINE"
_ADDRESS = "address"


@dataclass(frozen=True)
class ReadTarget:
    """A compute target's kind, its fields, the operator's settings for its kind, and its place."""

    kind: AnyKind
    target: Any
    settings: Any
    place: str


class ComputeTargets:
    """Parses and checks compute targets. Targets without `engine` are of the default kind."""

    def __init__(self, kinds: ComputeKinds, default: str = LOCAL, variables: Mapping[str, str] | None = None) -> None:
        self._kinds, self.default, self._variables = kinds, default, variables or {}
        self._settings: dict[str, Any] = {}

    def read(self, given: ComputeDefinition) -> ReadTarget:
        """Parse a stored target. Raises EngineError where its kind is missing, or its fields are wrong."""
        kind = self._kinds.get(given.engine or self.default)
        try:
            target, settings = read_body(kind.target, _own_fields(given)), self._settings_of(kind)
            return ReadTarget(kind, target, settings, kind.place(target, settings))
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


def _prefix(name: str) -> str:
    return f"RUNYARD_{name.upper().replace('-', '_')}_"


def _own_fields(given: ComputeDefinition) -> dict[str, JsonValue]:
    """Fields of its kind."""
    if _ADDRESS in given.settings:
        raise InvalidArgument("address is given in settings.", hint="Give it beside them.")
    return {**given.settings, **({} if given.address is None else {_ADDRESS: given.address})}
