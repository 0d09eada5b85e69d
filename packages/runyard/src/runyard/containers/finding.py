import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from runyard.containers.engine import Engine
from runyard.containers.transport import Certificates
from runyard.errors import EnvironmentFailed, InvalidArgument
from runyard.model.causes import Cause

ENGINE_WAYS = (
    "Install Docker (the package docker.io of Debian and Ubuntu, or docs.docker.com/engine/install) and start it, or "
    "install podman and run `systemctl --user start podman.socket`, or set DOCKER_HOST to the address of an engine's "
    "socket, for the shell that starts Runyard. Without any, `runyard environments settings "
    "without_engine=virtual-environment` lets the workspace's runs have the same packages in a virtual environment."
)
_CHOSEN = ("DOCKER_HOST", "CONTAINER_HOST")


def find_engine(variables: Mapping[str, str] = os.environ) -> Engine:
    """Find an engine that answers. Raises EnvironmentFailed, with how to get one, if there is none."""
    engine, failures = _search(variables)
    if engine is None:
        raise EnvironmentFailed(
            "This environment lies in a container image, and this machine has no container engine: neither docker nor "
            f"podman answers at its usual sockets{''.join(f'; {why}' for why in failures)}.",
            hint=ENGINE_WAYS,
            cause=Cause.NO_ENGINE,
            said="; ".join(failures) or "no socket of docker or podman is there",
        )
    return engine


def is_chosen(variables: Mapping[str, str]) -> bool:
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


def _search(variables: Mapping[str, str]) -> tuple[Engine | None, list[str]]:
    """The engine, and why sockets that were tried before it failed."""
    chosen = next((name for name in _CHOSEN if variables.get(name)), None)
    if chosen:
        return _chosen(chosen, variables), []
    failures = []
    for socket in usual_sockets(variables):
        engine = Engine(f"unix://{socket}")
        try:
            if not socket.is_socket():
                continue
            engine.answers()
        except (EnvironmentFailed, OSError) as error:
            failures.append(_why(socket, error))
        else:
            return engine, failures
    return None, failures


def _chosen(name: str, variables: Mapping[str, str]) -> Engine:
    address = variables[name]
    try:
        engine = Engine(address, _certificates(variables))
        engine.answers()
    except (EnvironmentFailed, InvalidArgument, OSError) as error:
        raise EnvironmentFailed(
            f"{name} is {address}, and no container engine answers there: {error}",
            hint=f"Start that engine, or unset {name}. {ENGINE_WAYS}",
            cause=Cause.NO_ENGINE,
            said=str(error),
        ) from error
    return engine


def _certificates(variables: Mapping[str, str]) -> Certificates | None:
    if not variables.get("DOCKER_TLS_VERIFY"):
        return None
    folder = variables.get("DOCKER_CERT_PATH") or str(Path(variables.get("HOME") or Path.home()) / ".docker")
    return Certificates(Path(folder))


def _why(socket: Path, error: Exception) -> str:
    if isinstance(error.__cause__ or error, PermissionError):
        return f"{socket} is not for this user (join its group, such as `docker`)"
    return f"{socket} does not answer"
