import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from runyard.core.errors import EnvironmentFailed, InvalidArgument
from runyard.core.records.environments import FailureCause
from runyard.environments.containers.containers import Containers
from runyard.environments.containers.images import Images
from runyard.environments.containers.records import EngineFacts, engine_facts
from runyard.environments.containers.transport import EngineCertificates, EngineTransport


class ContainerEngine:
    """Client of a docker or podman engine, by the Docker API. Creating it sends no request."""

    def __init__(self, address: str, certificates: EngineCertificates | None = None) -> None:
        self.address = address
        self._transport = EngineTransport(address, certificates)
        self.images = Images(self._transport, self.facts)
        self.containers = Containers(self._transport, self.facts)

    def facts(self) -> EngineFacts:
        """Name and version of the engine; requested once."""
        return self._facts

    def answers(self) -> None:
        """Raise EnvironmentFailed if the engine does not answer."""
        self._transport.get("/version")

    @cached_property
    def _facts(self) -> EngineFacts:
        return engine_facts(self._transport.get("/version"), self._transport.get("/info"))


HOW_TO_GET_ENGINE = (
    "Install Docker (the package docker.io of Debian and Ubuntu, or docs.docker.com/engine/install) and start it, or "
    "install podman and run `systemctl --user start podman.socket`, or set DOCKER_HOST to the address of an engine's "
    "socket, for the shell that starts Runyard. Without any, `runyard environments settings "
    "without_engine=virtual-environment` lets the workspace's runs have the same packages in a virtual environment."
)
_CHOSEN = ("DOCKER_HOST", "CONTAINER_HOST")


def find_engine(variables: Mapping[str, str] = os.environ) -> ContainerEngine:
    """Find an engine that answers. Raises EnvironmentFailed, with how to get one, if there is none."""
    engine, failures = _search(variables)
    if engine is None:
        raise EnvironmentFailed(
            "This environment lies in a container image, and this machine has no container engine: neither docker nor "
            f"podman answers at its usual sockets{''.join(f'; {why}' for why in failures)}.",
            hint=HOW_TO_GET_ENGINE,
            cause=FailureCause.NO_ENGINE,
            said="; ".join(failures) or "no socket of docker or podman is there",
        )
    return engine


def names_engine(variables: Mapping[str, str]) -> bool:
    """Whether the variables name an engine; then no other is tried."""
    return any(variables.get(name) for name in _CHOSEN)


def usual_sockets(variables: Mapping[str, str]) -> Iterator[Path]:
    """Default sockets: docker before podman, system before user."""
    runtime = Path(variables.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    home = Path(variables.get("HOME") or Path.home())
    yield Path("/var/run/docker.sock")
    yield runtime / "docker.sock"
    yield home / ".docker" / "run" / "docker.sock"
    yield Path("/run/podman/podman.sock")
    yield runtime / "podman" / "podman.sock"


def _search(variables: Mapping[str, str]) -> tuple[ContainerEngine | None, list[str]]:
    """The engine, and why sockets that were tried before it failed."""
    chosen = next((name for name in _CHOSEN if variables.get(name)), None)
    if chosen:
        return _chosen(chosen, variables), []
    failures = []
    for socket in usual_sockets(variables):
        engine = ContainerEngine(f"unix://{socket}")
        try:
            if not socket.is_socket():
                continue
            engine.answers()
        except (EnvironmentFailed, OSError) as error:
            failures.append(_why(socket, error))
        else:
            return engine, failures
    return None, failures


def _chosen(name: str, variables: Mapping[str, str]) -> ContainerEngine:
    address = variables[name]
    try:
        engine = ContainerEngine(address, _certificates(variables))
        engine.answers()
    except (EnvironmentFailed, InvalidArgument, OSError) as error:
        raise EnvironmentFailed(
            f"{name} is {address}, and no container engine answers there: {error}",
            hint=f"Start that engine, or unset {name}. {HOW_TO_GET_ENGINE}",
            cause=FailureCause.NO_ENGINE,
            said=str(error),
        ) from error
    return engine


def _certificates(variables: Mapping[str, str]) -> EngineCertificates | None:
    if not variables.get("DOCKER_TLS_VERIFY"):
        return None
    folder = variables.get("DOCKER_CERT_PATH") or str(Path(variables.get("HOME") or Path.home()) / ".docker")
    return EngineCertificates(Path(folder))


def _why(socket: Path, error: Exception) -> str:
    if isinstance(error.__cause__ or error, PermissionError):
        return f"{socket} is not for this user (join its group, such as `docker`)"
    return f"{socket} does not answer"
