from dataclasses import dataclass

from runyard.model.files import FileEntry

DEFAULT_PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class ImageSpec:
    """The container image of an environment. It has a `base` or a `dockerfile`, not both."""

    base: str = ""
    """The reference to pull, with the registry in front if the user gave one."""
    dockerfile: str = ""
    """The text of the Dockerfile that the base is built from."""
    context: tuple[FileEntry, ...] = ()
    """The files that the Dockerfile may copy; it gets no others."""
    registry: str = ""
    """Address of the registry. The node asks the service for its credentials; no plan holds them."""
    login: str = ""
    """Digest of the registry logins, without a password. An image that needs a login is reused only by callers who
    have that login."""
    platform: str = DEFAULT_PLATFORM
    interpreter: str = ""
    """The user's interpreter in an image that is used unchanged: a path, or a name on its PATH."""


@dataclass(frozen=True)
class VolumeWish:
    source: str
    target: str
    is_read_only: bool = False


@dataclass(frozen=True)
class ContainerWish:
    """Options of a run's containers that differ from the defaults. Not part of the environment's key."""

    shm_bytes: int | None = None
    memory_bytes: int | None = None
    cpus: float | None = None
    wants_gpus: bool = False
    ipc: str = ""
    network: str = ""
    user: str = ""
    hostname: str = ""
    is_privileged: bool = False
    volumes: tuple[VolumeWish, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    ulimits: tuple[tuple[str, int, int], ...] = ()
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    hosts: tuple[tuple[str, str], ...] = ()
    security: tuple[str, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
