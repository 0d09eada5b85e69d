"""Rules that every kind of registered asset starts from."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic

from runyard.assets.registry import D
from runyard.core.definitions.fields import JsonObject
from runyard.core.errors import Conflict
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset


class PlainKind(Generic[D]):
    """Stored as given; each registration is a new version."""

    is_versioned = True
    write_lock: AbstractContextManager[Any] = nullcontext()

    def needs_version(self, latest: Asset, new: D) -> bool:
        return True

    def checked(self, who: Principal, workspace: str, name: str, new: D) -> D:
        return new

    def checked_change(self, who: Principal, seen: Asset, changed: D) -> D:
        return self.checked(who, seen.workspace, seen.name, changed)

    def stored(self, asset: Asset) -> None:
        return

    def before_delete(self, asset: Asset, version: int | None) -> None:
        return

    def deleted(self, asset: Asset) -> None:
        return


def added_properties(seen: Asset, given: JsonObject) -> dict[str, Any]:
    """Existing properties with the new ones added. Raises Conflict for a property that is set to another value."""
    there = seen.body.get("properties") or {}
    for name, value in given.items():
        if name in there and there[name] != value:
            raise Conflict(
                f"The property {name!r} of {seen.name!r} is set to {there[name]!r} and cannot be changed.",
                hint="Use a tag for what changes.",
            )
    return {**there, **{str(name): value for name, value in given.items()}}
