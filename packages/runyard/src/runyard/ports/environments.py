from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from runyard.model.plan import EnvironmentSpec


@dataclass(frozen=True)
class BuiltEnvironment:
    key: str
    python: Path
    """Its interpreter: on this machine, or in `image` where there is one."""
    lock: str
    """Requirements with exact versions, one a line."""
    path_variables: Mapping[str, str] = field(default_factory=dict)
    """Folders that its programs need in front of what a variable such as LD_LIBRARY_PATH has."""
    image: str = ""
    """The id of the container image that it lies in; "" for a virtual environment of this machine."""
    warnings: tuple[str, ...] = ()
    """What the runs in it are to be told."""


@dataclass(frozen=True)
class EnvironmentLock:
    """What the same environment is made from on another machine."""

    python: str
    """The minor version that the lock was made for."""
    lock: str
    """The packages that come from the indexes, one a line."""
    wheels: Mapping[str, Path] = field(default_factory=dict)
    """What was compiled, by the key that tells for which machines and packages it is good."""


class EnvironmentBuilder(Protocol):
    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """The finished environment, from the disk alone: no subprocess. Marks it as used now."""

    def ensure(self, spec: EnvironmentSpec, say: Callable[[str], None]) -> BuiltEnvironment:
        """Find or build; one builder at a time per key, others wait. `say` takes lines for the build log.
        Raises EnvironmentFailed with the resolver's own words."""
