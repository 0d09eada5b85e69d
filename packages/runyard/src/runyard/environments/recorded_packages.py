import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.environments.planning.packages import normalized_name

PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*) *== *([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
RELEASE = re.compile(r"[0-9]+(\.[0-9]+){0,2}")
MINOR = re.compile(r"3\.[0-9]{1,2}")


@dataclass(frozen=True)
class RecordedPackages:
    """Python version and package versions that a model was made with, as far as known."""

    python: str = ""
    """Minor version such as "3.7"; "" if unknown."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Version by normalized package name."""
    source: str = ""
    """Where this is known from; completes "as in ..." in messages."""

    @classmethod
    def of_lock(cls, python: str, lock: str, run_id: str) -> "RecordedPackages":
        """Packages of the run that made the model. `lock` has lines 'name==version', among others that pip writes."""
        found = (PINNED.match(line) for line in lock.splitlines())
        return cls(_minor(python), {normalized_name(f[1]): f[2] for f in found if f}, f"run {run_id}")

    @classmethod
    def of_client(cls, facts: Mapping[str, Any] | None) -> "RecordedPackages":
        """Packages of the client that registered the model: {"python": "3.11", "packages": {...}}. Invalid values are
        ignored."""
        facts = facts if isinstance(facts, Mapping) else {}
        packages = facts.get("packages")
        lines = (f"{name}=={version}" for name, version in (packages if isinstance(packages, Mapping) else {}).items())
        found = (PINNED.fullmatch(line) for line in lines)
        source = "the environment that the model was registered from"
        return cls(_minor(str(facts.get("python") or "")), {normalized_name(f[1]): f[2] for f in found if f}, source)

    def release_of(self, names: Iterable[str]) -> str:
        """Release of the first of these packages that is known, without suffixes of local or test builds; or ''."""
        version = next(
            (self.packages[normalized_name(name)] for name in names if normalized_name(name) in self.packages), ""
        )
        found = RELEASE.match(version)
        return found[0] if found else ""

    def pins(self, *, without: Iterable[str]) -> list[str]:
        left_out = set(map(normalized_name, without))
        return [f"{name}=={version}" for name, version in self.packages.items() if name not in left_out]


def _minor(python: str) -> str:
    found = MINOR.match(python)
    return found[0] if found else ""
