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
    """Bind mount of a folder or file of this machine, which must exist."""

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
    request: ContainerWish = field(default_factory=ContainerWish)
    gpus: tuple[str, ...] = ()
    """Ids or numbers of its GPUs; none with `request.wants_gpus` means all."""
    name: str = ""
    entrypoint: tuple[str, ...] = ()
    """Goes in front of `command`; the image's own entrypoint is never used."""
    keeps_output: bool = False
    """The engine keeps the end of the output for `docker logs`."""


def want_sources(spec: ContainerSpec) -> None:
    """Raise EnvironmentFailed for a mount whose source is missing; some engines would create it as a folder of root."""
    missing = next((mount.source for mount in _all_mounts(spec) if not os.path.exists(mount.source)), None)
    if missing is not None:
        raise EnvironmentFailed(
            f"{missing!r} is to be mounted into a container, and is not on this machine.",
            hint="Make it first, or correct the volume in the docker arguments.",
            cause=Cause.ENGINE_FAILED,
            said=f"no such file or directory: {missing}",
        )


def creation(spec: ContainerSpec, engine: str = DOCKER) -> Json:
    """Body of the create request. The whole command becomes the entrypoint, so that the image's own is not used; a
    commit can restore both."""
    return {
        "Image": spec.image,
        "Entrypoint": [*spec.entrypoint, *spec.command],
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in {**spec.variables, **dict(spec.request.variables)}.items()],
        "Labels": dict(spec.labels),
        "WorkingDir": spec.working_folder,
        "User": spec.user or spec.request.user,
        "Hostname": spec.request.hostname,
        "HostConfig": _host_settings(spec, engine),
    }


def _host_settings(spec: ContainerSpec, engine: str) -> Json:
    request = spec.request
    settings: Json = {
        "NetworkMode": request.network or "host",
        "IpcMode": request.ipc or "private",
        "Privileged": request.is_privileged,
        "Mounts": [_bind(mount) for mount in _all_mounts(spec)],
        "Ulimits": [{"Name": name, "Soft": soft, "Hard": hard} for name, soft, hard in request.ulimits],
        "CapAdd": list(request.added_capabilities),
        "CapDrop": list(request.dropped_capabilities),
        "Devices": [_device(words) for words in request.devices],
        "ExtraHosts": [f"{name}:{address}" for name, address in request.hosts],
        "SecurityOpt": list(request.security),
        "Sysctls": dict(request.sysctls),
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}} if spec.keeps_output else {"Type": "none"},
    }
    if request.shm_bytes:
        settings["ShmSize"] = request.shm_bytes
    if request.memory_bytes:
        settings |= {"Memory": request.memory_bytes, "MemorySwap": request.memory_bytes}
    if request.cpus:
        settings["NanoCpus"] = round(request.cpus * 1e9)
    return _with_gpus(settings, spec, engine)


def _all_mounts(spec: ContainerSpec) -> tuple[Mount, ...]:
    return spec.mounts + tuple(Mount(one.source, one.target, one.is_read_only) for one in spec.request.volumes)


def _bind(mount: Mount) -> Json:
    """Mounts added below the source later, such as a run's data, appear in the container too."""
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
    if not spec.gpus and not spec.request.wants_gpus:
        return settings
    if engine == PODMAN:  # which takes GPUs as devices, by the names of the Container Device Interface
        names = [f"nvidia.com/gpu={gpu}" for gpu in spec.gpus or ("all",)]
        return {**settings, "Devices": [*settings["Devices"], *({"PathOnHost": name} for name in names)]}
    chosen: Json = {"DeviceIDs": list(spec.gpus)} if spec.gpus else {"Count": -1}
    return {**settings, "DeviceRequests": [{**chosen, "Capabilities": [["gpu"]]}]}
