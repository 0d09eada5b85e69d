import io
import json
import os
import re
import socket
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.environments.containers.containers import ContainerSpec, Mount
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.records import ImageFacts
from runyard.environments.containers.transport import tar_writer
from runyard.environments.images import inside
from runyard.environments.images.container_uv import TOOLS
from runyard.environments.images.inside import command_runner
from runyard.environments.programs import LogLine, ProgramResult, read_output

INSIDE = f"{TOOLS}/inside"
RUNNER_SOCKET = "door"  # the name on disk
ASKED_EVERY_SECONDS = 1.0
UserAndGroup = tuple[int, int]


@dataclass(frozen=True)
class PathMapping:
    """Folders and files of this machine that are mounted into a build container, with their paths there.

    Paths in commands and output are translated, so that no path of this machine stays in the image.
    """

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, scratch: Path, folders: Iterable[Path], variables: Mapping[str, str], texts: Sequence[str]
    ) -> "PathMapping":
        """The mapping for a build: `folders` are wheel folders, `texts` are requirements that may name local files."""
        seen = [str(folder) for folder in folders]
        seen += [variables[name] for name in READ_BY_NAME if os.path.isabs(variables.get(name, ""))]
        seen += [found["url"] or found["path"] for text in texts for found in LOCAL_FILE.finditer(text)]
        others = dict.fromkeys(path for path in seen if os.path.exists(path) and not path.startswith(f"{scratch}/"))
        pairs = [(path, f"{TOOLS}/given/{number}/{os.path.basename(path)}") for number, path in enumerate(others)]
        return cls(((str(scratch), WORK), *pairs))

    @property
    def scratch(self) -> Path:
        """The private folder of the build, which the container can write to."""
        return Path(self.pairs[0][0])

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(Mount(os.path.realpath(here), there, is_read_only=there != WORK) for here, there in self.pairs)

    def to_container(self, text: str) -> str:
        return _replaced(text, self.pairs)

    def to_host(self, text: str) -> str:
        return _replaced(text, tuple((there, here) for here, there in self.pairs))

    def variables(self, image: Mapping[str, str], program: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """Variables for a program in the container: the image's, the program's without those about this machine, and
        `own`, which win."""
        given = {name: self.to_container(value) for name, value in program.items() if name not in OF_THE_MACHINE}
        return {**image, **given, "HOME": f"{WORK}/home", "TMPDIR": f"{WORK}/tmp", **own}


@dataclass(frozen=True)
class BuildContainerSpec:
    """How to start a build container: its image, interpreter, mounts and variables."""

    engine: ContainerEngine
    image: ImageFacts
    python: str
    """Interpreter of the image that runs our programs."""
    folder: str
    """Folder to create, owned by the user of the container."""
    mapping: PathMapping
    mounts: tuple[Mount, ...]
    variables: Mapping[str, str]
    """Variables of every program; they win over all others."""
    name: str
    labels: Mapping[str, str]
    scratch: Path


class BuildContainer:
    """A container that runs programs one after another; `commit` makes a layer of what they wrote.

    Its first process reads commands from a socket of this process and exits when that is closed, so the container
    ends even if this process is killed.
    """

    def __init__(self, spec: BuildContainerSpec) -> None:
        self._spec = spec
        self._id = ""
        self._connection: socket.socket | None = None

    def __enter__(self) -> "BuildContainer":
        engine, owner = self._spec.engine, container_user(self._spec.engine)
        spec = ContainerSpec(
            image=self._spec.image.id,
            command=(
                self._spec.python,
                "-I",
                "-B",
                f"{INSIDE}/{os.path.basename(command_runner.__file__)}",
                f"{WORK}/{RUNNER_SOCKET}",
            ),
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
        self, command: Sequence[str], log: LogLine, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> ProgramResult:
        """Run a program in the container, like `run_program`; paths are translated in both directions.

        `held` is ignored: programs in the container write nothing outside of it but uv's cache.
        """
        mapping = self._spec.mapping
        request = {
            "command": [mapping.to_container(word) for word in command],
            "variables": mapping.variables(self._spec.image.variables, env, self._spec.variables),
            "folder": mapping.to_container(str(cwd)),
        }
        reader, writer = os.pipe()
        with open(reader, "rb") as output:
            try:
                self._send(request, writer)
            finally:
                os.close(writer)
            lines = read_output(output, lambda line: log(mapping.to_host(line)))
        ended = self._receive()
        if "error" in ended:
            raise OSError(ended["error"])
        return ProgramResult(int(ended["exit_code"]), [mapping.to_host(word) for word in lines])

    def commit(self, name: str, *, labels: Mapping[str, str], changes: tuple[str, ...], message: str) -> ImageFacts:
        """Commit the changes as a layer. Entrypoint, command and user of the image stay the same."""
        return self._spec.engine.images.commit(self._id, name, labels=labels, changes=changes, message=message)

    def _connect(self) -> socket.socket:
        """Start the container; returns the connection to its first process."""
        folder = os.open(self._spec.scratch, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
                # Socket paths are limited to about 100 characters; the scratch folder may be longer.
                listening.bind(f"/proc/self/fd/{folder}/{RUNNER_SOCKET}")
                os.chmod(self._spec.scratch / RUNNER_SOCKET, 0o600)
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
            cause=FailureCause.ENGINE_FAILED,
            said=reason,
        )

    def _remove(self) -> None:
        self._spec.engine.containers.remove(self._id)
        if self._connection is not None:
            self._connection.close()  # only now: podman fails if a container ends while it is removed
        (self._spec.scratch / RUNNER_SOCKET).unlink(missing_ok=True)


def container_user(engine: ContainerEngine) -> UserAndGroup:
    """User and group for programs in a build container, so that their files belong to us. In a rootless engine, root is
    our own user."""
    return (0, 0) if engine.facts().is_rootless else (os.getuid(), os.getgid())


def _empty_folders(path: str, owner: UserAndGroup) -> io.BytesIO:
    """A tar with an empty folder owned by `owner`, and its parents."""
    archive = io.BytesIO()
    parents = [str(folder) for folder in Path(path).relative_to("/").parents][:-1]
    with tar_writer(archive) as tar:
        for name in [*reversed(parents), path.lstrip("/")]:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            if name == path.lstrip("/"):
                entry.uid, entry.gid = owner
            tar.addfile(entry)
    return archive


WORK = f"{TOOLS}/work"
READ_BY_NAME = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "UV_CONFIG_FILE",
    "UV_CREDENTIALS_DIR",
)  # fmt: skip
LOCAL_FILE = re.compile(r"file://(?P<url>/[^\s#;]+)|^(?P<path>/[^\s#;]+)", re.M)
OF_THE_MACHINE = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for old, new in sorted(pairs, key=lambda place: len(place[0]), reverse=True):
        text = text.replace(old, new)
    return text
