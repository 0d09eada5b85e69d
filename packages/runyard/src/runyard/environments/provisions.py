"""What a workspace gives the builds of its environments, asked for when one begins."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runyard.containers.registries import RegistryCredentials
from runyard.model.files import FileEntry
from runyard.model.package_settings import PackageSettings

PlaceFiles = Callable[[Sequence[FileEntry], Path], None]
"""Writes files, such as those of a build context, below a folder."""


@dataclass(frozen=True)
class Provisions:
    """Held in memory for one build; nothing of it is written to what is built."""

    settings: PackageSettings = field(default_factory=PackageSettings)
    registries: Mapping[str, RegistryCredentials] = field(default_factory=dict)
    """By the registry's address."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses with passwords, by what stands for them in the spec."""
