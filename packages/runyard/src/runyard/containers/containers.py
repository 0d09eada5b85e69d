"""The containers of an engine: made, started, waited for, ended."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import IO

from runyard.containers.archives import sent_again_if_broken
from runyard.containers.creating import ContainerSpec, Mount, creation, want_sources
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

__all__ = ["ContainerEntry", "ContainerSpec", "ContainerState", "Containers", "Exit", "Finished", "Mount"]
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
        """Its id. Nothing runs yet."""
        want_sources(spec)
        engine = self._facts().name if spec.gpus or spec.wish.wants_gpus else DOCKER
        made = self._transport.ask("POST", "/containers/create", {"name": spec.name}, creation(spec, engine))
        return str(made["Id"])

    def start(self, container: str) -> None:
        """EnvironmentFailed with the engine's words where its first process cannot be started."""
        with _starting():
            self._transport.ask("POST", f"/containers/{container}/start")

    def wait(self, container: str) -> Exit:
        """How it ended, as long as it takes. EnvironmentFailed where the engine goes away meanwhile."""
        self._transport.ask("POST", f"/containers/{container}/wait", seconds=None)
        state = self.state(container)
        return state.exit if state else Exit(status=128 + signal.SIGKILL, error="The container was removed.")

    def state(self, container: str) -> ContainerState | None:
        try:
            return container_state(self._transport.get(f"/containers/{container}/json"))
        except Refused as no:
            if no.http_status == 404:
                return None
            raise

    def kill(self, container: str, number: int = signal.SIGKILL) -> bool:
        """False where there is nothing to send it to any more."""
        try:
            self._transport.ask("POST", f"/containers/{container}/kill", {"signal": signal.Signals(number).name})
        except Refused as no:
            if no.http_status in (404, 409) or "can only kill running" in no.said:
                return False
            raise
        return True

    def remove(self, container: str) -> None:
        """By force, with what it wrote. One that is gone, or going, is as well."""
        try:
            self._transport.ask(
                "DELETE", f"/containers/{container}", {"force": True, "v": True}, seconds=REMOVE_SECONDS
            )
        except Refused as no:
            if no.http_status not in (404, 409):
                raise

    def with_labels(self, labels: Mapping[str, str]) -> tuple[ContainerEntry, ...]:
        """Those that have all of these labels; an empty value stands for any."""
        wanted = {"label": [f"{name}={value}" if value else name for name, value in labels.items()]} if labels else {}
        query = {"all": True, "filters": wanted}
        return tuple(container_entry(body) for body in self._transport.get("/containers/json", query) or ())

    def run(self, spec: ContainerSpec, say: Say, *, keeps: bool = False) -> Finished:
        """Start it, say the lines it prints, and wait for its end. It is removed unless `keeps`, and always where an
        exception ends this."""
        container = self.create(spec)
        lines = Lines(say)
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
        """What it prints from now on, until it ends."""
        with self._attached(container) as output:
            for piece in _unframed(output):
                take(piece)

    def put_archive(self, container: str, folder: str, archive: IO[bytes]) -> None:
        """Unpack a tar below a folder of the container, which must be there. `archive` can be rewound."""
        path, headers = f"/containers/{container}/archive", {"Content-Type": "application/x-tar"}

        def send() -> None:
            with self._transport.opened("PUT", path, {"path": folder}, archive, headers=headers) as answer:
                answer.read()

        sent_again_if_broken(archive, send)

    @contextmanager
    def _attached(self, container: str) -> Iterator[HTTPResponse]:
        """The container waits while nobody reads: nothing it prints is lost or kept."""
        query = {"stream": True, "stdout": True, "stderr": True}
        with _starting(), self._transport.opened("POST", f"/containers/{container}/attach", query) as answer:
            yield answer


@contextmanager
def _starting() -> Iterator[None]:
    """podman makes the first process ready when somebody attaches to the container, and fails there."""
    try:
        yield
    except Refused as no:
        raise not_started(no) from no


def _unframed(output: HTTPResponse) -> Iterator[bytes]:
    """Both streams in the order of their writes: each piece has a header of eight bytes with its length."""
    while len(header := output.read(_FRAME_HEADER)) == _FRAME_HEADER:
        left = int.from_bytes(header[4:], "big")
        while left and (piece := output.read(min(left, _CHUNK))):
            left -= len(piece)
            yield piece
