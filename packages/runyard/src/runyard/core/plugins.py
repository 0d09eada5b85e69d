"""Loads plug-ins by entry points. Runyard's own parts are loaded in the same way."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plugins:
    """Plug-ins of an entry point group: objects by name, and the reason for each name that was left out."""

    found: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    listed: dict[str, EntryPoint] = field(default_factory=dict)
    """Entry points that are not imported yet."""

    def load(self, name: str) -> None:
        """Import a listed plug-in: afterwards it is in `found` or `left_out`. Does nothing if it is not listed."""
        point = self.listed.pop(name, None)
        if point is None:
            return
        try:
            self.found[name] = point.load()
        except (Exception, SystemExit) as error:  # whatever its module does at import
            self.leave_out(name, f"{point.value}: {type(error).__name__}: {error}")

    def leave_out(self, name: str, why: str) -> None:
        """Log the reason, and move the name from `found` to `left_out`."""
        self.found.pop(name, None)
        self.left_out[name] = why
        log.warning("Plug-in %s was left out: %s", name, why)


def list_plugins(group: str) -> Plugins:
    """List all plug-ins of the group and import none.

    If two packages use one name, Runyard's own wins: no installed package can replace a part of Runyard.
    """
    plugins = Plugins()
    for point in _ours_first(entry_points(group=group)):
        if point.name in plugins.listed:
            plugins.leave_out(f"{point.name} = {point.value}", "the name is taken.")
        else:
            plugins.listed[point.name] = point
    return plugins


def load_plugins(group: str) -> Plugins:
    """Import all plug-ins of the group. One that cannot be imported is logged and left out, never raised."""
    plugins = list_plugins(group)
    for name in list(plugins.listed):
        plugins.load(name)
    return plugins


def _ours_first(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    return sorted(points, key=lambda point: (not point.value.startswith("runyard."), point.name, point.value))
