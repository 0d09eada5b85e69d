import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import IO, Any

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import ContainerRequest
from runyard.environments.containers.failures import EngineRefused, start_failed
from runyard.environments.containers.output import BoundedLog
from runyard.environments.containers.records import (
    DOCKER,
    PODMAN,
    ContainerEntry,
    ContainerExit,
    ContainerState,
    EngineFacts,
    container_entry,
    container_state,
)
from runyard.environments.containers.transport import EngineTransport, retry_broken_pipe
from runyard.environments.programs import LogLine

REMOVE_SECONDS = 300.0
_CHUNK = 1 << 16
_FRAME_HEADER = 8


@dataclass(frozen=True)
class ContainerResult:
    id: str
    exit: ContainerExit


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
    request: ContainerRequest = field(default_factory=ContainerRequest)
    gpus: tuple[str, ...] = ()
    """Ids or numbers of its GPUs; none with `request.wants_gpus` means all."""
    name: str = ""
    entrypoint: tuple[str, ...] = ()
    """Goes in front of `command`; the image's own entrypoint is never used."""
    keeps_output: bool = False
    """The engine keeps the end of the output for `docker logs`."""


class Containers:
    def __init__(self, transport: EngineTransport, facts: Callable[[], EngineFacts]) -> None:
        self._transport, self._facts = transport, facts

    def create(self, spec: ContainerSpec) -> str:
        """Create a container and return its id; does not start it."""
        require_sources(spec)
        engine = self._facts().name if spec.gpus or spec.request.wants_gpus else DOCKER
        made = self._transport.ask("POST", "/containers/create", {"name": spec.name}, creation_request(spec, engine))
        return str(made["Id"])

    def start(self, container: str) -> None:
        """Raises EnvironmentFailed with the engine's message if the first process cannot be started."""
        with _starting():
            self._transport.ask("POST", f"/containers/{container}/start")

    def wait(self, container: str) -> ContainerExit:
        """Wait without a limit for the container to exit. Raises EnvironmentFailed if the engine goes away."""
        self._transport.ask("POST", f"/containers/{container}/wait", seconds=None)
        state = self.state(container)
        return state.exit if state else ContainerExit(status=128 + signal.SIGKILL, error="The container was removed.")

    def state(self, container: str) -> ContainerState | None:
        try:
            return container_state(self._transport.get(f"/containers/{container}/json"))
        except EngineRefused as error:
            if error.http_status == 404:
                return None
            raise

    def kill(self, container: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal; False if the container no longer runs."""
        try:
            self._transport.ask("POST", f"/containers/{container}/kill", {"signal": signal.Signals(number).name})
        except EngineRefused as error:
            if error.http_status in (404, 409) or "can only kill running" in error.said:
                return False
            raise
        return True

    def remove(self, container: str) -> None:
        """Remove the container by force, with its files; quiet if it is gone or being removed."""
        try:
            self._transport.ask(
                "DELETE", f"/containers/{container}", {"force": True, "v": True}, seconds=REMOVE_SECONDS
            )
        except EngineRefused as error:
            if error.http_status not in (404, 409):
                raise

    def with_labels(self, labels: Mapping[str, str]) -> tuple[ContainerEntry, ...]:
        """List containers that have all of these labels; an empty value matches any."""
        wanted = {"label": [f"{name}={value}" if value else name for name, value in labels.items()]} if labels else {}
        query = {"all": True, "filters": wanted}
        return tuple(container_entry(body) for body in self._transport.get("/containers/json", query) or ())

    def run(self, spec: ContainerSpec, log: LogLine, *, keeps: bool = False) -> ContainerResult:
        """Create and start a container, log its output and wait for its exit. It is removed afterwards unless `keeps`,
        and always if an exception is raised."""
        container = self.create(spec)
        lines = BoundedLog(log)
        try:
            with self._attached(container) as output:
                self.start(container)
                for piece in _unframed(output):
                    lines.take(piece)
            exit_ = self.wait(container)
        except BaseException:
            self.remove(container)
            raise
        finally:
            lines.close()
        if not keeps:
            self.remove(container)
        return ContainerResult(container, exit_)

    def follow(self, container: str, take: Callable[[bytes], None]) -> None:
        """Pass the container's output to `take` until it exits."""
        with self._attached(container) as output:
            for piece in _unframed(output):
                take(piece)

    def put_archive(self, container: str, folder: str, archive: IO[bytes]) -> None:
        """Unpack a seekable tar below an existing folder of the container."""
        path, headers = f"/containers/{container}/archive", {"Content-Type": "application/x-tar"}

        def send() -> None:
            with self._transport.opened("PUT", path, {"path": folder}, archive, headers=headers) as answer:
                answer.read()

        retry_broken_pipe(archive, send)

    @contextmanager
    def _attached(self, container: str) -> Iterator[HTTPResponse]:
        """Attach to the output. The container blocks while nobody reads, so nothing is lost or buffered."""
        query = {"stream": True, "stdout": True, "stderr": True}
        with _starting(), self._transport.opened("POST", f"/containers/{container}/attach", query) as answer:
            yield answer


@contextmanager
def _starting() -> Iterator[None]:
    """Translate start errors. podman prepares the first process on attach, so these appear there too."""
    try:
        yield
    except EngineRefused as error:
        raise start_failed(error) from error


def _unframed(output: HTTPResponse) -> Iterator[bytes]:
    """Output of both streams in order; each piece has a header of eight bytes with its length."""
    while len(header := output.read(_FRAME_HEADER)) == _FRAME_HEADER:
        left = int.from_bytes(header[4:], "big")
        while left and (piece := output.read(min(left, _CHUNK))):
            left -= len(piece)
            yield piece


Json = dict[str, Any]


def require_sources(spec: ContainerSpec) -> None:
    """Raise EnvironmentFailed for a mount whose source is missing; some engines would create it as a folder of root."""
    missing = next((mount.source for mount in _all_mounts(spec) if not os.path.exists(mount.source)), None)
    if missing is not None:
        raise EnvironmentFailed(
            f"{missing!r} is to be mounted into a container, and is not on this machine.",
            hint="Make it first, or correct the volume in the docker arguments.",
            cause=FailureCause.ENGINE_FAILED,
            said=f"no such file or directory: {missing}",
        )


def creation_request(spec: ContainerSpec, engine: str = DOCKER) -> Json:
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
