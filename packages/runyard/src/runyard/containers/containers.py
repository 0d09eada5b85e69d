import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import IO

from runyard.containers.archives import sent_again_if_broken
from runyard.containers.creating import ContainerSpec, creation, want_sources
from runyard.containers.failures import Refused, not_started
from runyard.containers.records import (
    DOCKER,
    ContainerEntry,
    ContainerState,
    EngineFacts,
    Exit,
    container_entry,
    container_state,
)
from runyard.containers.speaking import Lines, Say
from runyard.containers.transport import Transport

REMOVE_SECONDS = 300.0
_CHUNK = 1 << 16
_FRAME_HEADER = 8


@dataclass(frozen=True)
class Finished:
    id: str
    exit: Exit


class Containers:
    def __init__(self, transport: Transport, facts: Callable[[], EngineFacts]) -> None:
        self._transport, self._facts = transport, facts

    def create(self, spec: ContainerSpec) -> str:
        """Create a container and return its id; does not start it."""
        want_sources(spec)
        engine = self._facts().name if spec.gpus or spec.request.wants_gpus else DOCKER
        made = self._transport.ask("POST", "/containers/create", {"name": spec.name}, creation(spec, engine))
        return str(made["Id"])

    def start(self, container: str) -> None:
        """Raises EnvironmentFailed with the engine's message if the first process cannot be started."""
        with _starting():
            self._transport.ask("POST", f"/containers/{container}/start")

    def wait(self, container: str) -> Exit:
        """Wait without a limit for the container to exit. Raises EnvironmentFailed if the engine goes away."""
        self._transport.ask("POST", f"/containers/{container}/wait", seconds=None)
        state = self.state(container)
        return state.exit if state else Exit(status=128 + signal.SIGKILL, error="The container was removed.")

    def state(self, container: str) -> ContainerState | None:
        try:
            return container_state(self._transport.get(f"/containers/{container}/json"))
        except Refused as error:
            if error.http_status == 404:
                return None
            raise

    def kill(self, container: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal; False if the container no longer runs."""
        try:
            self._transport.ask("POST", f"/containers/{container}/kill", {"signal": signal.Signals(number).name})
        except Refused as error:
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
        except Refused as error:
            if error.http_status not in (404, 409):
                raise

    def with_labels(self, labels: Mapping[str, str]) -> tuple[ContainerEntry, ...]:
        """List containers that have all of these labels; an empty value matches any."""
        wanted = {"label": [f"{name}={value}" if value else name for name, value in labels.items()]} if labels else {}
        query = {"all": True, "filters": wanted}
        return tuple(container_entry(body) for body in self._transport.get("/containers/json", query) or ())

    def run(self, spec: ContainerSpec, log: Say, *, keeps: bool = False) -> Finished:
        """Create and start a container, log its output and wait for its exit. It is removed afterwards unless `keeps`,
        and always if an exception is raised."""
        container = self.create(spec)
        lines = Lines(log)
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
        return Finished(container, exit_)

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

        sent_again_if_broken(archive, send)

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
    except Refused as error:
        raise not_started(error) from error


def _unframed(output: HTTPResponse) -> Iterator[bytes]:
    """Output of both streams in order; each piece has a header of eight bytes with its length."""
    while len(header := output.read(_FRAME_HEADER)) == _FRAME_HEADER:
        left = int.from_bytes(header[4:], "big")
        while left and (piece := output.read(min(left, _CHUNK))):
            left -= len(piece)
            yield piece
