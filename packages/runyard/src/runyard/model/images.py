"""Environments that lie in container images, and the containers that runs of them live in."""

from dataclasses import dataclass

from runyard.model.files import FileEntry

DEFAULT_PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class ImageSpec:
    """The image that an environment's interpreter and packages lie in. It has a `base` or a `dockerfile`, not both."""

    base: str = ""
    """The reference to pull, with its registry in front where the user gave one."""
    dockerfile: str = ""
    """The text to build the base from."""
    context: tuple[FileEntry, ...] = ()
    """What the Dockerfile may copy; nothing else of any machine."""
    registry: str = ""
    """The registry's address, for which the node asks the service for credentials. They are in no plan."""
    login: str = ""
    """Tells apart what was built with other logins to its registries, and no password: an image that takes one is
    found by those alone who have it."""
    platform: str = DEFAULT_PLATFORM
    interpreter: str = ""
    """Of an image that is used as it is: the user's interpreter in it, a path or a name on its PATH."""


@dataclass(frozen=True)
class VolumeWish:
    source: str
    target: str
    is_read_only: bool = False


@dataclass(frozen=True)
class ContainerWish:
    """How the containers of a run differ from what they are by default. Not part of what is built."""

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
