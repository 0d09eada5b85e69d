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
from runyard.containers.containers import ContainerSpec, Mount
from runyard.containers.engine import Engine
from runyard.containers.images import ImageFacts
from runyard.environments.images import inside
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
    """Where a layer is to be made: on top of which image, and by which of its interpreters."""

    engine: Engine
    image: ImageFacts
    python: str
    """Runs what is to be run there."""
    folder: str
    """Made anew, to be filled."""
    passage: Passage
    mounts: tuple[Mount, ...]
    variables: Mapping[str, str]
    """Of every program that is run there, before all others."""
    name: str
    labels: Mapping[str, str]
    scratch: Path


class Workshop:
    """A container in which programs are run one after another. What they wrote can become a layer.

    It ends with us, even if we are killed: its first process waits at a socket of ours.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._id = ""
        self._door: socket.socket | None = None

    def __enter__(self) -> "Workshop":
        engine, owner = self._site.engine, builder_of(self._site.engine)
        spec = ContainerSpec(
            image=self._site.image.id,
            command=(self._site.python, "-I", "-B", f"{INSIDE}/door.py", f"{WORK}/{DOOR}"),
            name=self._site.name,
            labels=self._site.labels,
            mounts=(
                *self._site.mounts,
                *self._site.passage.mounts,
                Mount(os.path.dirname(inside.__file__), INSIDE, is_read_only=True),
            ),
            working_folder="/",
            user=f"{owner[0]}:{owner[1]}",
            keeps_output=True,
        )
        self._id = engine.containers.create(spec)
        try:
            engine.containers.put_archive(self._id, "/", _empty_folders(self._site.folder, owner))
            self._door = self._entered()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._leave()

    def run(
        self, command: Sequence[str], say: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> Spoken:
        """As `run_saying`, in the container: paths of this machine stand for where they are seen there. The programs
        hold no locks, and need none: nothing outside of the container is theirs to write but uv's cache."""
        passage = self._site.passage
        asked = {
            "command": [passage.inward(word) for word in command],
            "variables": passage.variables(self._site.image.variables, env, self._site.variables),
            "folder": passage.inward(str(cwd)),
        }
        reader, writer = os.pipe()
        with open(reader, "rb") as output:
            try:
                self._tell(asked, writer)
            finally:
                os.close(writer)
            words = listen(output, lambda line: say(passage.outward(line)))
        ended = self._answer()
        if "error" in ended:
            raise OSError(ended["error"])
        return Spoken(int(ended["exit_code"]), [passage.outward(word) for word in words])

    def commit(self, name: str, *, labels: Mapping[str, str], changes: tuple[str, ...], message: str) -> ImageFacts:
        """What was done here as a layer. How the image starts, and as whom, stays as it was."""
        return self._site.engine.images.commit(self._id, name, labels=labels, changes=changes, message=message)

    def _entered(self) -> socket.socket:
        """A connection with the container's first process, once that has started."""
        folder = os.open(self._site.scratch, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
                # A socket's name is short: the scratch folder may lie deep.
                listening.bind(f"/proc/self/fd/{folder}/{DOOR}")
                os.chmod(self._site.scratch / DOOR, 0o600)
                listening.listen(1)
                listening.settimeout(ASKED_EVERY_SECONDS)
                self._site.engine.containers.start(self._id)
                return self._accepted(listening)
        finally:
            os.close(folder)

    def _accepted(self, listening: socket.socket) -> socket.socket:
        while True:
            try:
                door, _ = listening.accept()
            except TimeoutError:
                state = self._site.engine.containers.state(self._id)
                if state is None or not state.is_running:
                    raise self._failed("its first process ended at once") from None
            else:
                door.settimeout(None)
                return door

    def _tell(self, asked: Mapping[str, object], writer: int) -> None:
        assert self._door
        message = json.dumps(asked).encode() + b"\n"
        try:
            sent = socket.send_fds(self._door, [message], [writer])
            self._door.sendall(message[sent:])
        except OSError as error:
            raise self._failed(str(error)) from error

    def _answer(self) -> dict[str, str | int]:
        assert self._door
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self._door.recv(65536)
            if not piece:
                raise self._failed("it ended before its work was done")
            answer += piece
        return dict(json.loads(answer))

    def _failed(self, said: str) -> EnvironmentFailed:
        state = self._site.engine.containers.state(self._id)
        if state is not None and state.exit.is_out_of_memory:
            said = "it was ended for lack of memory"
        elif state is not None and state.exit.error:
            said = state.exit.error
        return EnvironmentFailed(
            f"The container in which the environment is made broke off: {said}.",
            hint="See that the container engine runs on this machine and sees its files; then submit again.",
            cause=Cause.ENGINE_FAILED,
            said=said,
        )

    def _leave(self) -> None:
        self._site.engine.containers.remove(self._id)
        if self._door is not None:
            self._door.close()  # not before: a container that ends just when it is removed confuses podman
        (self._site.scratch / DOOR).unlink(missing_ok=True)


def builder_of(engine: Engine) -> Owner:
    """Whom programs in a build container run as, so that what they leave in our folders is ours. The root of an engine
    without root is our own user."""
    return (0, 0) if engine.facts().is_rootless else (os.getuid(), os.getgid())


def _empty_folders(path: str, owner: Owner) -> io.BytesIO:
    """An archive of a folder that belongs to the builder, and of those above it."""
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
