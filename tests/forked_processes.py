"""`runyard` commands, services, agents and gateways in forks of processes that have imported them.

Starting Python and importing take ten times as long as most commands do, and the start of a service, an agent or a
gateway is most of what many tests cost. Tests of the start itself, of signals and of terminals run the program.
"""

import array
import ctypes
import json
import os
import resource
import runpy
import select
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

from runyard.core.umask import users_umask
from runyard.node.processes import detached
from runyard.server.lifecycle import control
from runyard_sdk import start
from runyard_sdk.home import private

_LONGEST_REQUEST = 1 << 20
_PROGRAMS = control._launch, start._launch, detached._launch
_COMMANDS, _SERVICES = "runyard.cli.main:main", "runyard.server.lifecycle.process:main"
_HELPERS = {
    "runyard.node.exit_keeper": "runyard.node.agent",
    "runyard.serving.gateway": "runyard.serving.gateway.process",
}
"""Modules that services start, each with what it imports. Each has a fork server that imports nothing else."""
_ROOM = " " * 2000
"""A fork shows its own command line in place of this one."""


class Forks:
    """Asks a fork server. Several processes may have copies of the socket."""

    def __init__(self, asked: socket.socket) -> None:
        self._socket = asked

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
        ready_fd: int | None = None,
    ) -> "ForkedProcess":
        """Start a function, or a module as a program, in a process with these standard descriptors, and with
        `ready_fd` as it is here. The caller closes its own copies."""
        status, theirs = os.pipe()
        request = {
            "entry": entry,
            "command": list(command),
            "env": dict(env),
            "cwd": str(cwd),
            "own_session": own_session,
            "ready_fd": ready_fd,
            "umask": users_umask(),
            "limits": _limits(),
        }
        rights = array.array("i", [*standard, *([] if ready_fd is None else [ready_fd]), theirs])
        self._socket.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(theirs)
        return ForkedProcess(status)


class ForkServer(Forks):
    """Forks processes that have imported one module, or all commands and services, and start their helpers as forks."""

    def __init__(self, module: str = "", helpers: "Helpers | None" = None) -> None:
        asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(asked)
        passed = [theirs.fileno(), *(helpers.descriptors() if helpers else [])]
        command = [sys.executable, "-m", "tests.forked_processes", module, ",".join(map(str, passed)), _ROOM]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=passed)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # services and processes that a test forked may have copies of it
        self._socket.close()
        self._process.wait(60)


class Helpers:
    """Starts agents and gateways as forks, in place of `detached._launch`."""

    def __init__(self, forks: Mapping[str, Forks]) -> None:
        self._forks, self._start, self._surroundings = forks, detached._launch, _surroundings(os.environ)

    def descriptors(self) -> list[int]:
        return [self._forks[name]._socket.fileno() for name in _HELPERS]

    def launch(self, command: list[str], log: int, ready_fd: int, variables: Mapping[str, str]) -> Any:
        _python, _option, module, *arguments = command
        if module not in self._forks or _surroundings(variables) != self._surroundings:
            return self._start(command, log, ready_fd, variables)
        with open(os.devnull) as nothing:
            standard = [nothing.fileno(), log, log]
            forks = self._forks[module]
            return forks.start(module, arguments, standard, variables, "/", own_session=True, ready_fd=ready_fd)


@contextmanager
def forked_helpers() -> Iterator[Helpers]:
    servers = {name: ForkServer(module) for name, module in _HELPERS.items()}
    yield Helpers(servers)
    for server in servers.values():
        server.close()


def _surroundings(variables: Mapping[str, str]) -> list[Any]:
    """Facts that a program takes from its starter, or reads as it starts, and a fork of another process lacks."""
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "net", "pid", "user")]
    return [spaces, os.getresuid(), {name: text for name, text in variables.items() if name.startswith("PYTHON")}]


class ForkedProcess:
    """Process of a fork server, with the methods of `subprocess.Popen` that its starters need."""

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

    def wait(self, timeout: float | None = None) -> int:
        while (code := self.poll()) is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
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
def forked_services(server: ForkServer, helpers: Helpers) -> Iterator[None]:
    """Have this process start services as forks: those of `start_service` and those of the SDK. So their helpers."""

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

    with _launching(for_tools, for_sdk, helpers.launch):
        yield


def started_programs() -> AbstractContextManager[None]:
    """Undo `forked_services` for a while."""
    return _launching(*_PROGRAMS)


@contextmanager
def _launching(for_tools: Any, for_sdk: Any, for_helpers: Any) -> Iterator[None]:
    before = control._launch, start._launch, detached._launch
    control._launch, start._launch, detached._launch = for_tools, for_sdk, for_helpers
    try:
        yield
    finally:
        control._launch, start._launch, detached._launch = before


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


def import_services(helpers: Sequence[socket.socket]) -> None:
    import runyard.server.lifecycle.running_service  # noqa: F401
    from runyard.cli.application import COMMANDS

    for command in COMMANDS.values():
        resolve_name(command.target)
    if helpers:
        forks = {name: Forks(asked) for name, asked in zip(_HELPERS, helpers, strict=True)}
        detached._launch = Helpers(forks).launch


def serve(requests: socket.socket) -> None:
    """Fork a process for each request, until the other end is closed. No thread is ever started here."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for a process
    while True:
        received, rights, _, _ = requests.recvmsg(_LONGEST_REQUEST, socket.CMSG_SPACE(5 * 4))
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
    *given, status = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(status)
        for target, descriptor in enumerate(given[:3]):
            os.dup2(descriptor, target)
            os.close(descriptor)
        if given[3:] and given[3] != request["ready_fd"]:
            os.dup2(given[3], request["ready_fd"])
            os.close(given[3])
        _run(request)
    for descriptor in given:
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
        if request["entry"] in _HELPERS:
            os.umask(request["umask"])
            for name, limit in _limits().items():
                if limit != tuple(request["limits"][name]):
                    resource.setrlimit(getattr(resource, name), request["limits"][name])
            _show_command([sys.executable, "-m", request["entry"], *request["command"]])
            sys.argv[1:] = request["command"]
            runpy.run_module(request["entry"], run_name="__main__", alter_sys=True)
        else:
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


def _limits() -> dict[str, tuple[int, int]]:
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def _show_command(words: Sequence[str]) -> None:
    """Have /proc show these words: processes of a home are found by them."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # arg_start, arg_end
    text = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert len(text) <= end - begin, f"{words} are longer than _ROOM."
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


if __name__ == "__main__":
    asked, *helpers = [socket.socket(fileno=int(text)) for text in sys.argv[2].split(",")]
    for one in (asked, *helpers):
        os.set_inheritable(one.fileno(), False)
    if sys.argv[1]:
        resolve_name(sys.argv[1])
    else:
        import_services(helpers)
    serve(asked)
