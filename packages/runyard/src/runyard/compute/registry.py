import threading
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.compute.kind import ComputeKind
from runyard.core.errors import EngineError
from runyard.core.plugins import Plugins, list_plugins

GROUP = "runyard.compute"
LOCAL = "local"
AnyKind = ComputeKind[Any, Any]


class ComputeKinds:
    """Installed compute kinds by name, from entry points. A kind is imported on first use."""

    def __init__(self, group: str = GROUP) -> None:
        self._group = group
        self._plugins: Plugins | None = None
        self._lock = threading.RLock()

    def names(self) -> Sequence[str]:
        """Sorted names of the kinds. Imports none; a kind that fails to import is removed later."""
        with self._lock:
            plugins = self._listed()
            return sorted({*plugins.listed, *plugins.found})

    def get(self, name: str) -> AnyKind:
        """Return the kind of that name. Raises EngineError with the reason when there is none."""
        with self._lock:
            plugins = self._listed()
            if name in plugins.listed:
                plugins.load(name)
                _check(plugins, name)
            if name in plugins.found:
                found: AnyKind = plugins.found[name]
                return found
        if name in plugins.left_out:
            raise EngineError(
                f"Compute kind {name!r} was left out: {plugins.left_out[name]}",
                hint="Repair or remove the package that brings it, and start the service again.",
            )
        known = ", ".join(map(repr, self.names())) or "none"
        raise EngineError(
            f"There is no compute kind {name!r}. Known: {known}.",
            hint="Install the package that brings it where the service runs, and start the service again.",
        )

    def load_all(self) -> Mapping[str, AnyKind]:
        """Import and return all kinds; those that fail are in `left_out`."""
        with self._lock:
            for name in list(self._listed().listed):
                self._listed().load(name)
                _check(self._listed(), name)
            return dict(sorted(self._listed().found.items()))

    def left_out(self) -> Mapping[str, str]:
        """Reasons why broken kinds were left out, by name."""
        with self._lock:
            return dict(self._listed().left_out)

    def _listed(self) -> Plugins:
        if self._plugins is None:
            self._plugins = list_plugins(self._group)
        return self._plugins


def _check(plugins: Plugins, name: str) -> None:
    found = plugins.found.get(name)
    if found is None:
        return
    if not isinstance(found, ComputeKind):
        plugins.leave_out(name, f"its entry point names a {type(found).__name__}, not a ComputeKind.")
    elif found.name != name:
        plugins.leave_out(name, f"it calls itself {found.name!r}.")
