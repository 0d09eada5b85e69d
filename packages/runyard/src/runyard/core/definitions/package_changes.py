from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PackageSettingsChange:
    """Changes of a workspace's package settings. None keeps a setting. See PackageSettings for the fields."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] | None = None
    find_links: tuple[str, ...] | None = None
    trusted_hosts: tuple[str, ...] | None = None
    ca_bundle: str | None = None
    offline: bool | None = None
    conda: str | None = None
    conda_channels: Mapping[str, str] | None = None
    python_downloads: str | None = None
    without_engine: str | None = None
    reset: frozenset[str] = frozenset()
    """Names of settings to reset to their defaults."""
