"""`runyard` commands and services in forks of a process that has imported them.

Starting Python and importing take ten times as long as most commands do, and a service's start is most of what many
tests cost. Tests of the start itself, of signals and of terminals run the program.
"""

import array
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from runyard.server.lifecycle import control
from runyard_sdk import start
from runyard_sdk.home import private

_LONGEST_REQUEST = 1 << 20
_PROGRAMS = control._launch, start._launch
_COMMANDS, _SERVICES = "runyard.cli.main:main", "runyard.server.lifecycle.process:main"


class ForkServer:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked_processes", str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # a process that a test forked may have a copy of it
        self._socket.close()
        self._process.wait(60)

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command as `subprocess.run(..., capture_output=True, text=True)` does."""
        given = os.memfd_create("stdin")
        os.write(given, options.get("input", "").encode())
        os.lseek(given, 0, os.SEEK_SET)
        outputs = [os.pipe(), os.pipe()]
        theirs = [given, *(write for _, write in outputs)]
        process = self.start(_COMMANDS, command, theirs, options["env"], options["cwd"])
        for descriptor in theirs:
            os.close(descriptor)
        timer = threading.Timer(options["timeout"], lambda: os.kill(process.pid, signal.SIGKILL))
        timer.start()
        printed = _read_all([read for read, _ in outputs])
        code = process.wait()
        timer.cancel()
        if code == -signal.SIGKILL:
            raise subprocess.TimeoutExpired(command, options["timeout"], printed[0], printed[1])
        return subprocess.CompletedProcess(command, code, printed[0], printed[1])

    def start(
        self,
        entry: str,
        command: Sequence[str],
        standard: Sequence[int],
        env: Mapping[str, str],
        cwd: Path | str,
        *,
        own_session: bool = False,
    ) -> "ForkedProcess":
        """Start a function in a process with these standard descriptors. The caller closes its own copies."""
        status, theirs = os.pipe()
        request = {
            "entry": entry,
            "command": list(command),
            "env": dict(env),
            "cwd": str(cwd),
            "own_session": own_session,
        }
        rights = array.array("i", [*standard, theirs])
        self._socket.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(theirs)
        return ForkedProcess(status)


class ForkedProcess:
    """Process of the fork server, with the methods of `subprocess.Popen` that starting a service needs."""

    def __init__(self, status: int) -> None:
        self._status, self._text = status, b""
        while b"\n" not in self._text:
            self._text += _some(status)
        pid, self._text = self._text.split(b"\n", 1)
        self.pid = int(pid)
        self.returncode: int | None = None
        os.set_blocking(status, False)

    def poll(self) -> int | None:
        if self.returncode is None:
            if not self._text:  # the code may have come in one read with the pid
                with suppress(BlockingIOError):
                    self._text += _some(self._status)
            if self._text.endswith(b"\n"):
                self.returncode = int(self._text)
        return self.returncode

    def wait(self) -> int:
        os.set_blocking(self._status, True)
        while (code := self.poll()) is None:
            continue
        return code

    def __del__(self) -> None:
        os.close(self._status)


def _some(status: int) -> bytes:
    """Read what is there. Raises EOFError where the fork server or its child was killed."""
    text = os.read(status, 64)
    if not text:
        raise EOFError("The fork server has ended.")
    return text


@contextmanager
def forked_services(server: ForkServer) -> Iterator[None]:
    """Have this process start services as forks: those of `start_service` and those of the SDK."""

    def launch(home: Path | str, how: str, variables: Mapping[str, str]) -> ForkedProcess:
        with open(Path(home, "service.log"), "ab", opener=private) as log, open(os.devnull) as nothing:
            standard = [nothing.fileno(), log.fileno(), log.fileno()]
            return server.start(_SERVICES, [how], standard, variables, home, own_session=True)

    def for_tools(home: Path, keep: bool) -> ForkedProcess:
        kept = {name: value for name, value in os.environ.items() if name not in control.UNINHERITED_VARIABLES}
        return launch(home, "--keep" if keep else "--on-demand", {**kept, "RUNYARD_HOME": str(home)})

    def for_sdk(home: str, how: str) -> ForkedProcess:
        start.executable(home)  # raises where there is no program to start
        start._remove(os.path.join(home, "start-error.json"))
        given = start.program_variables(home).items()
        return launch(home, how, {name: value for name, value in given if name not in start._OF_A_WORKER})

    with _launching(for_tools, for_sdk):
        yield


def started_programs() -> AbstractContextManager[None]:
    """Undo `forked_services` for a while."""
    return _launching(*_PROGRAMS)


@contextmanager
def _launching(for_tools: Any, for_sdk: Any) -> Iterator[None]:
    before = control._launch, start._launch
    control._launch, start._launch = for_tools, for_sdk
    try:
        yield
    finally:
        control._launch, start._launch = before


def _read_all(pipes: Sequence[int]) -> list[str]:
    texts = [""] * len(pipes)

    def read(index: int) -> None:
        with open(pipes[index], encoding="utf-8") as source:
            texts[index] = source.read()

    readers = [threading.Thread(target=read, args=(index,)) for index in range(len(pipes))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return texts


def serve(requests: socket.socket) -> None:
    """Fork a process for each request, until the other end is closed. No thread is ever started here."""
    import runyard.server.lifecycle.running_service  # noqa: F401
    from runyard.cli.application import COMMANDS

    for command in COMMANDS.values():
        resolve_name(command.target)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for a process
    while True:
        received, rights, _, _ = requests.recvmsg(_LONGEST_REQUEST, socket.CMSG_SPACE(4 * 4))
        if not received:
            return
        descriptors = array.array("i", rights[0][2])
        if os.fork() == 0:
            requests.close()
            _await_process(json.loads(received), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _await_process(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Run the function in a child, and write its pid and then its exit code to the last descriptor."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    *standard, status = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(status)
        for target, descriptor in enumerate(standard):
            os.dup2(descriptor, target)
            os.close(descriptor)
        _run(request)
    for descriptor in standard:
        os.close(descriptor)
    try:
        os.write(status, f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, f"{code}\n".encode())
    finally:
        os._exit(0)


def _run(request: dict[str, Any]) -> None:
    code: Any = 1
    try:
        if request["own_session"]:
            os.setsid()
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        function = resolve_name(request["entry"])
        sys.argv = request["command"]
        code = (function() if request["entry"] == _COMMANDS else function(sys.argv)) or 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
