"""Records of images and containers, parsed from the engine's JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

Json = dict[str, Any]
DOCKER, PODMAN = "docker", "podman"


@dataclass(frozen=True)
class EngineFacts:
    name: str
    """"docker" or "podman"."""
    version: str
    api: str
    architecture: str
    """Architecture as images name it, such as "amd64"."""
    system: str
    is_rootless: bool


@dataclass(frozen=True)
class ImageFacts:
    id: str
    names: tuple[str, ...]
    digests: tuple[str, ...]
    """"repository@sha256:...", where it came from a registry."""
    architecture: str
    system: str
    variables: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    user: str
    working_folder: str
    labels: Mapping[str, str]
    layers: tuple[str, ...]
    size: int
    created: str


@dataclass(frozen=True)
class ImageEntry:
    id: str
    names: tuple[str, ...]
    labels: Mapping[str, str]
    created: int
    """Seconds since 1970."""
    size: int


@dataclass(frozen=True)
class ContainerEntry:
    id: str
    name: str
    image: str
    """Its image's id."""
    labels: Mapping[str, str]
    status: str


@dataclass(frozen=True)
class ContainerExit:
    status: int
    """Exit code of the first process, or 128 plus the signal that ended it."""
    is_out_of_memory: bool = False
    """The kernel killed a process because the container's memory limit was reached."""
    error: str = ""
    """The engine's message if it could not be started."""


@dataclass(frozen=True)
class ContainerState:
    status: str
    """"created", "running", "paused", "exited", "dead" ..."""
    pid: int
    """Host pid of the first process; 0 when it does not run."""
    exit: ContainerExit
    labels: Mapping[str, str]
    image: str

    @property
    def is_running(self) -> bool:
        return self.status in ("running", "paused", "restarting")


@dataclass(frozen=True)
class BuildContext:
    archive: IO[bytes]
    """A tar, positioned at its beginning."""
    dockerfile: str
    """The name of the Dockerfile in it."""
    bases: tuple[str, ...]
    """Images named by its FROM lines."""


def engine_facts(version: Json, info: Json) -> EngineFacts:
    parts = [str(part.get("Name", "")) for part in version.get("Components") or ()]
    is_podman = any("podman" in part.lower() for part in parts)
    return EngineFacts(
        name=PODMAN if is_podman else DOCKER,
        version=str(version.get("Version", "")),
        api=str(version.get("ApiVersion", "")),
        architecture=str(version.get("Arch", "")),
        system=str(version.get("Os", "")),
        is_rootless=any("rootless" in str(option) for option in info.get("SecurityOptions") or ()),
    )


def image_facts(body: Json) -> ImageFacts:
    config = body.get("Config") or {}
    return ImageFacts(
        id=with_algorithm(str(body["Id"])),
        names=tuple(body.get("RepoTags") or ()),
        digests=tuple(body.get("RepoDigests") or ()),
        architecture=str(body.get("Architecture", "")),
        system=str(body.get("Os", "")),
        variables=dict(line.partition("=")[::2] for line in config.get("Env") or ()),
        entrypoint=_words(config.get("Entrypoint")),
        command=_words(config.get("Cmd")),
        user=str(config.get("User") or ""),
        working_folder=str(config.get("WorkingDir") or ""),
        labels=dict(config.get("Labels") or {}),
        layers=tuple((body.get("RootFS") or {}).get("Layers") or ()),
        size=int(body.get("Size") or 0),
        created=str(body.get("Created", "")),
    )


def image_entry(body: Json) -> ImageEntry:
    return ImageEntry(
        id=with_algorithm(str(body["Id"])),
        names=tuple(name for name in body.get("RepoTags") or () if name != "<none>:<none>"),
        labels=dict(body.get("Labels") or {}),
        created=int(body.get("Created") or 0),
        size=int(body.get("Size") or 0),
    )


def container_entry(body: Json) -> ContainerEntry:
    names = body.get("Names") or [""]
    return ContainerEntry(
        id=str(body["Id"]),
        name=str(names[0]).lstrip("/"),
        image=with_algorithm(str(body.get("ImageID") or "")),
        labels=dict(body.get("Labels") or {}),
        status=str(body.get("State", "")),
    )


def container_state(body: Json) -> ContainerState:
    state = body.get("State") or {}
    return ContainerState(
        status=str(state.get("Status", "")),
        pid=int(state.get("Pid") or 0),
        exit=ContainerExit(
            status=int(state.get("ExitCode") or 0),
            is_out_of_memory=bool(state.get("OOMKilled")),
            error=str(state.get("Error") or ""),
        ),
        labels=dict((body.get("Config") or {}).get("Labels") or {}),
        image=with_algorithm(str(body.get("Image") or "")),
    )


def with_algorithm(identifier: str) -> str:
    """podman leaves "sha256:" out."""
    return identifier if ":" in identifier or not identifier else f"sha256:{identifier}"


def _words(value: object) -> tuple[str, ...]:
    """Engines give a list, a string or nothing."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(str(word) for word in value) if isinstance(value, list) else ()
