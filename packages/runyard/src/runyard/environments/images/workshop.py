import io
import json
import os
import socket
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from runyard.containers.archives import writing_tar
from runyard.containers.creating import ContainerSpec, Mount
from runyard.containers.engine import Engine
from runyard.containers.records import ImageFacts
from runyard.environments.images import inside
from runyard.environments.images.inside import door
from runyard.environments.images.passage import WORK, Passage
from runyard.environments.images.tools import TOOLS
from runyard.environments.programs import Say, Spoken, listen
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause

INSIDE = f"{TOOLS}/inside"
DOOR = "door"
ASKED_EVERY_SECONDS = 1.0
Owner = tuple[int, int]


@dataclass(frozen=True)
class Site:
    """How to start a build container: its image, interpreter, mounts and variables."""

    engine: Engine
    image: ImageFacts
    python: str
    """Interpreter of the image that runs our programs."""
    folder: str
    """Folder to create, owned by the user of the container."""
    mapping: Passage
    mounts: tuple[Mount, ...]
    variables: Mapping[str, str]
    """Variables of every program; they win over all others."""
    name: str
    labels: Mapping[str, str]
    scratch: Path


class Workshop:
    """A container that runs programs one after another; `commit` makes a layer of what they wrote.

    Its first process reads commands from a socket of this process and exits when that is closed, so the container
    ends even if this process is killed.
    """

    def __init__(self, spec: Site) -> None:
        self._spec = spec
        self._id = ""
        self._connection: socket.socket | None = None

    def __enter__(self) -> "Workshop":
        engine, owner = self._spec.engine, builder_of(self._spec.engine)
        spec = ContainerSpec(
            image=self._spec.image.id,
            command=(self._spec.python, "-I", "-B", f"{INSIDE}/{os.path.basename(door.__file__)}", f"{WORK}/{DOOR}"),
            name=self._spec.name,
            labels=self._spec.labels,
            mounts=(
                *self._spec.mounts,
                *self._spec.mapping.mounts,
                Mount(os.path.dirname(inside.__file__), INSIDE, is_read_only=True),
            ),
            working_folder="/",
            user=f"{owner[0]}:{owner[1]}",
            keeps_output=True,
        )
        self._id = engine.containers.create(spec)
        try:
            engine.containers.put_archive(self._id, "/", _empty_folders(self._spec.folder, owner))
            self._connection = self._connect()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._remove()

    def run(
        self, command: Sequence[str], log: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> Spoken:
        """Run a program in the container, like `run_program`; paths are translated in both directions.

        `held` is ignored: programs in the container write nothing outside of it but uv's cache.
        """
        mapping = self._spec.mapping
        request = {
            "command": [mapping.inward(word) for word in command],
            "variables": mapping.variables(self._spec.image.variables, env, self._spec.variables),
            "folder": mapping.inward(str(cwd)),
        }
        reader, writer = os.pipe()
        with open(reader, "rb") as output:
            try:
                self._send(request, writer)
            finally:
                os.close(writer)
            lines = listen(output, lambda line: log(mapping.outward(line)))
        ended = self._receive()
        if "error" in ended:
            raise OSError(ended["error"])
        return Spoken(int(ended["exit_code"]), [mapping.outward(word) for word in lines])

    def commit(self, name: str, *, labels: Mapping[str, str], changes: tuple[str, ...], message: str) -> ImageFacts:
        """Commit the changes as a layer. Entrypoint, command and user of the image stay the same."""
        return self._spec.engine.images.commit(self._id, name, labels=labels, changes=changes, message=message)

    def _connect(self) -> socket.socket:
        """Start the container; returns the connection to its first process."""
        folder = os.open(self._spec.scratch, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
                # Socket paths are limited to about 100 characters; the scratch folder may be longer.
                listening.bind(f"/proc/self/fd/{folder}/{DOOR}")
                os.chmod(self._spec.scratch / DOOR, 0o600)
                listening.listen(1)
                listening.settimeout(ASKED_EVERY_SECONDS)
                self._spec.engine.containers.start(self._id)
                return self._accepted(listening)
        finally:
            os.close(folder)

    def _accepted(self, listening: socket.socket) -> socket.socket:
        while True:
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                state = self._spec.engine.containers.state(self._id)
                if state is None or not state.is_running:
                    raise self._failed("its first process ended at once") from None
            else:
                connection.settimeout(None)
                return connection

    def _send(self, request: Mapping[str, object], writer: int) -> None:
        assert self._connection
        message = json.dumps(request).encode() + b"\n"
        try:
            sent = socket.send_fds(self._connection, [message], [writer])
            self._connection.sendall(message[sent:])
        except OSError as error:
            raise self._failed(str(error)) from error

    def _receive(self) -> dict[str, str | int]:
        assert self._connection
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self._connection.recv(65536)
            if not piece:
                raise self._failed("it ended before its work was done")
            answer += piece
        return dict(json.loads(answer))

    def _failed(self, reason: str) -> EnvironmentFailed:
        state = self._spec.engine.containers.state(self._id)
        if state is not None and state.exit.is_out_of_memory:
            reason = "it was ended for lack of memory"
        elif state is not None and state.exit.error:
            reason = state.exit.error
        return EnvironmentFailed(
            f"The container in which the environment is made broke off: {reason}.",
            hint="See that the container engine runs on this machine and sees its files; then submit again.",
            cause=Cause.ENGINE_FAILED,
            said=reason,
        )

    def _remove(self) -> None:
        self._spec.engine.containers.remove(self._id)
        if self._connection is not None:
            self._connection.close()  # only now: podman fails if a container ends while it is removed
        (self._spec.scratch / DOOR).unlink(missing_ok=True)


def builder_of(engine: Engine) -> Owner:
    """User and group for programs in a build container, so that their files belong to us. In a rootless engine, root is
    our own user."""
    return (0, 0) if engine.facts().is_rootless else (os.getuid(), os.getgid())


def _empty_folders(path: str, owner: Owner) -> io.BytesIO:
    """A tar with an empty folder owned by `owner`, and its parents."""
    archive = io.BytesIO()
    parents = [str(folder) for folder in Path(path).relative_to("/").parents][:-1]
    with writing_tar(archive) as tar:
        for name in [*reversed(parents), path.lstrip("/")]:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            if name == path.lstrip("/"):
                entry.uid, entry.gid = owner
            tar.addfile(entry)
    return archive
