import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runyard.node.processes.procfs import raise_oom_score

_APPENDED = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True)
class SpawnSpec:
    """Command, environment, folder and log of a process to start."""

    name: str
    command: list[str]
    variables: dict[str, str]
    """Its whole environment: nothing is inherited."""
    folder: str
    log: str
    marker: str = os.devnull
    """File that the new process makes before it executes the program."""
    held: tuple[int, ...] = ()
    """Descriptors that it inherits and keeps open, such as the lock of its environment."""


def spawn(one: SpawnSpec, enter: Callable[[], None] | None = None) -> int:
    """Start the process in a new session and return its pid. Raises OSError.

    Its output goes straight into a file, so it runs on when this process dies. `enter` is called in the new process
    before it executes the program. The caller reaps it.
    """
    pid = _posix_spawn(one) if enter is None else _fork(one, enter)
    raise_oom_score(pid)
    return pid


def _posix_spawn(one: SpawnSpec) -> int:
    """Start without a fork, which would copy the page tables of this process."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, one.marker, _APPENDED, 0o600),
        (os.POSIX_SPAWN_OPEN, 1, one.log, _APPENDED, 0o666),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    with contextlib.chdir(one.folder), _inherited(one.held):
        program = _found(one.command[0], one.variables)
        return os.posix_spawn(
            program, one.command, one.variables, file_actions=actions, setsid=True, setsigdef=_IGNORED_BY_PYTHON
        )


def _found(program: str, variables: Mapping[str, str]) -> str:
    """Path of the program, found by the new process's PATH. Raises FileNotFoundError."""
    if "/" in program:
        return program
    path = shutil.which(program, path=variables.get("PATH", os.defpath))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return path


@contextlib.contextmanager
def _inherited(descriptors: tuple[int, ...]) -> Iterator[None]:
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)


def _fork(one: SpawnSpec, enter: Callable[[], None]) -> int:
    def become() -> None:
        enter()
        os.close(os.open(one.marker, _APPENDED, 0o600))

    try:
        with Path(one.log).open("ab", buffering=0) as output:
            process = subprocess.Popen(
                one.command,
                cwd=one.folder,
                env=one.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=become,
                pass_fds=one.held,
            )
    except subprocess.SubprocessError as e:
        raise OSError("the run's own network is gone") from e
    process.returncode = 0  # Popen must not reap it.
    return process.pid
