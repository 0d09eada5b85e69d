"""`runyard` commands in forks of a process that has imported the command line.

Starting Python and importing take ten times as long as most commands. Tests of the start itself, of signals and of
terminals run the program.
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
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

_LONGEST_REQUEST = 1 << 20


class ForkServer:
    """Runs a command as `subprocess.run(..., capture_output=True, text=True)` does."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forked_commands", str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )

    def close(self) -> None:
        self._socket.close()
        self._process.wait(60)

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        given = os.memfd_create("stdin")
        os.write(given, options.get("input", "").encode())
        os.lseek(given, 0, os.SEEK_SET)
        outputs, statuses = [os.pipe(), os.pipe()], os.pipe()
        request = {"command": list(command), "env": options["env"], "cwd": str(options["cwd"])}
        theirs = [given, *(write for _, write in outputs), statuses[1]]
        self._socket.sendmsg(
            [json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))]
        )
        for descriptor in theirs:
            os.close(descriptor)
        with open(statuses[0], encoding="ascii") as status:
            pid = int(status.readline())
            timer = threading.Timer(options["timeout"], lambda: os.kill(pid, signal.SIGKILL))
            timer.start()
            printed = _read_all([read for read, _ in outputs])
            code = int(status.readline())
            timer.cancel()
        if code == -signal.SIGKILL:
            raise subprocess.TimeoutExpired(command, options["timeout"], printed[0], printed[1])
        return subprocess.CompletedProcess(command, code, printed[0], printed[1])


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
    """Fork a command for each request, until the other end is closed. No thread is ever started here."""
    from runyard.cli.application import COMMANDS

    for command in COMMANDS.values():
        resolve_name(command.target)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for a command
    while True:
        received, rights, _, _ = requests.recvmsg(_LONGEST_REQUEST, socket.CMSG_SPACE(4 * 4))
        if not received:
            return
        descriptors = array.array("i", rights[0][2])
        if os.fork() == 0:
            requests.close()
            _await_command(json.loads(received), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _await_command(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Run the command in a child, and write its pid and then its exit code to the last descriptor."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, status = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(status)
        for target, descriptor in enumerate(standard):
            os.dup2(descriptor, target)
            os.close(descriptor)
        _run_command(request)
    for descriptor in standard:
        os.close(descriptor)
    os.write(status, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(status, f"{code}\n".encode())
    os._exit(0)


def _run_command(request: dict[str, Any]) -> None:
    from runyard.cli.main import main

    code: Any = 1
    try:
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        sys.argv = request["command"]
        main()
        code = 0
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
