from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

REFUSE, VIRTUAL_ENVIRONMENT = "refuse", "virtual-environment"
AUTO, NEVER = "auto", "never"


KEY_TAG = "runyard.key"
"""Tag of a stored environment with the key of its build."""
LABEL_TAG = "runyard.label/"
"""Prefix of the tags that are labels."""


@dataclass(frozen=True)
class PackageSettings:
    """Package sources of a workspace's environments.

    Addresses may hold passwords, so the record is a secret: it is kept in the vault, and nodes ask for it to build.
    """

    index_url: str = ""
    """Replaces the default index; "" keeps the submitter's own setting."""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    """Folders or pages of wheels, for example CPU builds of torch for use_gpu=False."""
    trusted_hosts: tuple[str, ...] = ()
    ca_bundle: str = ""
    """Certificates in PEM form that uv, pip, conda and image builds trust."""
    offline: bool = False
    """Use only what is in the caches."""
    conda: str = AUTO
    """"auto": an installed micromamba, mamba or conda solves conda packages; "never": they are mapped to PyPI."""
    conda_channels: dict[str, str] = field(default_factory=dict)
    """Address for each channel name."""
    python_downloads: str = AUTO
    """"auto": uv may download an interpreter that is not here; "never"."""
    without_engine: str = REFUSE
    """How a run in an image is handled without a container engine: "refuse" or "virtual-environment"."""


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


class FailureCause(StrEnum):
    """Why an environment could not be built. Programs and the documentation use these codes."""

    NO_SUCH_PACKAGE = "no_such_package"
    NO_SUCH_VERSION = "no_such_version"
    NOT_FOR_THIS_PYTHON = "not_for_this_python"
    CONFLICT = "conflict"
    COMPILER_MISSING = "compiler_missing"
    HEADER_MISSING = "header_missing"
    BUILD_FAILED = "build_failed"
    NO_PYTHON = "no_python"
    NO_PYPI_TWIN = "no_pypi_twin"
    CONDA_FAILED = "conda_failed"
    NETWORK = "network"
    OFFLINE = "offline"
    DISK_FULL = "disk_full"
    WRONG_CREDENTIALS = "wrong_credentials"
    CERTIFICATE = "certificate"
    IMAGE_NOT_FOUND = "image_not_found"
    REGISTRY_FAILED = "registry_failed"
    DOCKERFILE_FAILED = "dockerfile_failed"
    ARCHITECTURE = "architecture"
    CHECKSUM = "checksum"
    NO_ENGINE = "no_engine"
    ENGINE_FAILED = "engine_failed"
    KILLED = "killed"
    UNKNOWN = "unknown"
