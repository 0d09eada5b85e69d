from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from runyard.core.records.launch_plan import EnvironmentSpec


@dataclass(frozen=True)
class BuiltEnvironment:
    key: str
    python: Path
    """Its interpreter: on this machine, or in `image` if that is set."""
    lock: str
    """Requirements with exact versions, one per line."""
    path_variables: Mapping[str, str] = field(default_factory=dict)
    """Folders to prepend to variables such as LD_LIBRARY_PATH for its programs."""
    image: str = ""
    """Id of its container image; "" for a virtual environment of this machine."""
    warnings: tuple[str, ...] = ()
    """Warnings for the runs that use it."""


@dataclass(frozen=True)
class EnvironmentLock:
    """What is needed to rebuild the same environment on another machine."""

    python: str
    """Minor version of the Python that the lock is for."""
    lock: str
    """Packages from the indexes, one per line."""
    wheels: Mapping[str, Path] = field(default_factory=dict)
    """Compiled wheels, by a key for the machines and packages that they fit."""


class EnvironmentBuilder(Protocol):
    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """The finished environment or None; reads only the disk, starts no process. Marks it as used now."""

    def ensure(self, spec: EnvironmentSpec, log: Callable[[str], None]) -> BuiltEnvironment:
        """Find or build; one builder at a time per key, others wait. `log` takes lines for the build log.
        Raises EnvironmentFailed with the resolver's own words."""
