from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runyard.containers.registries import RegistryCredentials
from runyard.model.files import FileEntry
from runyard.model.package_settings import PackageSettings

PlaceFiles = Callable[[Sequence[FileEntry], Path], None]
"""Callback(entries, folder): write files, such as those of a build context, below the folder."""


@dataclass(frozen=True)
class Provisions:
    """What a workspace gives one build. Kept in memory; none of it is stored in the environment."""

    settings: PackageSettings = field(default_factory=PackageSettings)
    registries: Mapping[str, RegistryCredentials] = field(default_factory=dict)
    """By the address of the registry."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """URLs with passwords, by the marked URLs that stand for them in the spec."""
