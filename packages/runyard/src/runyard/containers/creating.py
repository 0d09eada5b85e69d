"""What an engine is asked to make a container from."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.containers.records import DOCKER, PODMAN
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.images import ContainerWish

Json = dict[str, Any]


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine, which must be there."""

    source: str
    target: str
    is_read_only: bool = False


@dataclass(frozen=True)
class ContainerSpec:
    image: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    working_folder: str = ""
    user: str = ""
    wish: ContainerWish = field(default_factory=ContainerWish)
    gpus: tuple[str, ...] = ()
    """Ids or numbers of the GPUs it sees; none with `wish.wants_gpus` means all."""
    name: str = ""
    entrypoint: tuple[str, ...] = ()
    """In place of the image's own, which is never used."""
    keeps_output: bool = False
    """The engine keeps the last of what is printed, for `docker logs`."""


def want_sources(spec: ContainerSpec) -> None:
    """Every mount has something to mount: podman, and older dockers, would make a folder of root's there."""
    missing = next((mount.source for mount in _all_mounts(spec) if not os.path.exists(mount.source)), None)
    if missing is not None:
        raise EnvironmentFailed(
            f"{missing!r} is to be mounted into a container, and is not on this machine.",
            hint="Make it first, or correct the volume in the docker arguments.",
            cause=Cause.ENGINE_FAILED,
            said=f"no such file or directory: {missing}",
        )


def creation(spec: ContainerSpec, engine: str = DOCKER) -> Json:
    """The body of the request, for an engine of that name. The whole command is its entrypoint: the image's own is not
    used, and a commit can put both back."""
    return {
        "Image": spec.image,
        "Entrypoint": [*spec.entrypoint, *spec.command],
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in {**spec.variables, **dict(spec.wish.variables)}.items()],
        "Labels": dict(spec.labels),
        "WorkingDir": spec.working_folder,
        "User": spec.user or spec.wish.user,
        "Hostname": spec.wish.hostname,
        "HostConfig": _host_settings(spec, engine),
    }


def _host_settings(spec: ContainerSpec, engine: str) -> Json:
    wish = spec.wish
    settings: Json = {
        "NetworkMode": wish.network or "host",
        "IpcMode": wish.ipc or "private",
        "Privileged": wish.is_privileged,
        "Mounts": [_bind(mount) for mount in _all_mounts(spec)],
        "Ulimits": [{"Name": name, "Soft": soft, "Hard": hard} for name, soft, hard in wish.ulimits],
        "CapAdd": list(wish.added_capabilities),
        "CapDrop": list(wish.dropped_capabilities),
        "Devices": [_device(words) for words in wish.devices],
        "ExtraHosts": [f"{name}:{address}" for name, address in wish.hosts],
        "SecurityOpt": list(wish.security),
        "Sysctls": dict(wish.sysctls),
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}} if spec.keeps_output else {"Type": "none"},
    }
    if wish.shm_bytes:
        settings["ShmSize"] = wish.shm_bytes
    if wish.memory_bytes:
        settings |= {"Memory": wish.memory_bytes, "MemorySwap": wish.memory_bytes}
    if wish.cpus:
        settings["NanoCpus"] = round(wish.cpus * 1e9)
    return _with_gpus(settings, spec, engine)


def _all_mounts(spec: ContainerSpec) -> tuple[Mount, ...]:
    return spec.mounts + tuple(Mount(one.source, one.target, one.is_read_only) for one in spec.wish.volumes)


def _bind(mount: Mount) -> Json:
    """Mounts that appear below the source later, such as a run's data, appear in the container too."""
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.is_read_only,
    }


def _device(words: str) -> Json:
    """ "/dev/fuse", "/dev/fuse:/dev/other" or "/dev/fuse:/dev/fuse:rw"."""
    source, _, rest = words.partition(":")
    target, _, rights = rest.partition(":")
    return {"PathOnHost": source, "PathInContainer": target or source, "CgroupPermissions": rights or "rwm"}


def _with_gpus(settings: Json, spec: ContainerSpec, engine: str) -> Json:
    if not spec.gpus and not spec.wish.wants_gpus:
        return settings
    if engine == PODMAN:  # which takes GPUs as devices, by the names of the Container Device Interface
        names = [f"nvidia.com/gpu={gpu}" for gpu in spec.gpus or ("all",)]
        return {**settings, "Devices": [*settings["Devices"], *({"PathOnHost": name} for name in names)]}
    chosen: Json = {"DeviceIDs": list(spec.gpus)} if spec.gpus else {"Count": -1}
    return {**settings, "DeviceRequests": [{**chosen, "Capabilities": [["gpu"]]}]}
