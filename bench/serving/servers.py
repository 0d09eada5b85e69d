"""Server processes that are compared with ours: started on a free port, asked until they answer, ended as a group."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from bench.peers.process import OFFLINE, REPOSITORY, PeerFailed, peer_python
from bench.serving import trivial_server
from bench.serving.load import HOST, Target

SCRIPTS = REPOSITORY / "bench" / "peers" / "serving"
START_SECONDS, END_SECONDS = 60, 1.5
# One thread a process for whatever computes, for all of them alike.
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Kind:
    """How one is started in its own environment and asked. Filled in: `{port}`, `{model}`, `{folder}` (the model's),
    `{python}`, `{bin}` and `{here}` (the folder of the peers' scripts)."""

    environment: str
    command: tuple[str, ...]
    path: str = "/score"
    envelope: str = "data"
    reads: Callable[[Any], object] = lambda body: body
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """Rows and what is right for each, so that an answer that belongs to another request is seen."""

    rows: Sequence[Sequence[float]]
    answers: Sequence[object]

    def bodies(self, envelope: str, beside: Mapping[str, str] | None = None) -> list[bytes]:
        """One row a body, below the name `envelope`."""
        return [json.dumps({envelope: [list(row)], **(beside or {})}).encode() for row in self.rows]


class Server:
    """One that answers. `seconds` is how long it took from its start to its first answer."""

    def __init__(self, process: "subprocess.Popen[bytes]", target: Target, seconds: float) -> None:
        self.process, self.target, self.seconds = process, target, seconds


@contextmanager
def serving(kind: Kind, question: Question, model: Path, folder: Path) -> Iterator[Server]:
    """PeerFailed when it does not install, ends or stays silent."""
    python = Path(peer_python(kind.environment))
    port = free_port()
    places = {"port": port, "model": model, "folder": model.parent, "python": python, "bin": python.parent}
    variables = {"BENCH_MODEL": str(model), **kind.variables}
    command = [part.format(**places, here=SCRIPTS) for part in kind.command]
    target = Target(port, kind.path, question.bodies(kind.envelope), question.answers, kind.reads)
    with running(command, folder, variables, python) as process:
        seconds = until_first_answer(process, target, folder / "log")
        yield Server(process, target, seconds)


@contextmanager
def trivial(question: Question, folder: Path) -> Iterator[Target]:
    """A server that looks at nothing: what the load generator can ask for at most."""
    port = free_port()
    target = Target(port, "/", question.bodies("data"), [trivial_server.ANSWER] * len(question.rows))
    command = [sys.executable, "-c", f"from bench.serving import trivial_server; trivial_server.serve({port})"]
    with running(command, folder, {"PYTHONPATH": str(REPOSITORY)}, Path(sys.executable)) as process:
        until_first_answer(process, target, folder / "log")
        yield target


@contextmanager
def running(
    command: Sequence[str], folder: Path, variables: Mapping[str, str], python: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with a group of its own; the whole group is ended. What it prints is in `folder`/log."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    path = f"{python.parent}:{kept.get('PATH', '')}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**kept, **OFFLINE, **THREADS, "PATH": path, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end_group(process)


def until_first_answer(process: "subprocess.Popen[bytes]", target: Target, log: Path) -> float:
    begun = time.perf_counter()
    while time.perf_counter() - begun < START_SECONDS:
        answer = asked(target)
        if answer is not None:
            seconds = time.perf_counter() - begun
            found = target.reads(json.loads(answer))
            if found != target.answers[0]:
                raise PeerFailed(f"answered {found!r} in place of {target.answers[0]!r}")
            return seconds
        if process.poll() is not None:
            raise PeerFailed(f"ended with {process.returncode}: {_last_line(log)}")
        time.sleep(0.01)
    raise PeerFailed(f"gave no answer within {START_SECONDS} s: {_last_line(log)}")


def asked(target: Target) -> bytes | None:
    """The body of an answer to the first question; None while nobody answers it with 200."""
    connection = HTTPConnection(HOST, target.port, timeout=5)
    try:
        connection.request("POST", target.path, target.bodies[0], {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        return body if answer.status == 200 else None
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
