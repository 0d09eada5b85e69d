"""Asking the load generator, and holding what came back against what was right."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"
WARM_SECONDS = 0.2


@dataclass(frozen=True)
class Target:
    """Where to ask, what to ask, and what has to come: `answers[i]` for `bodies[i]`, as `reads` finds it in a body."""

    port: int
    path: str
    bodies: Sequence[bytes]
    answers: Sequence[object]
    reads: Callable[[Any], object] = lambda body: body
    headers: Mapping[str, str] = field(default_factory=dict)

    def requests(self) -> list[bytes]:
        return [self._request(body) for body in self.bodies]

    def _request(self, body: bytes) -> bytes:
        named = {"Host": f"localhost:{self.port}", "Content-Type": "application/json", "Content-Length": len(body)}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**named, **self.headers}.items())
        return f"POST {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body


@dataclass(frozen=True)
class Load:
    """One round. Latencies in milliseconds; `cpu` is the part of a core that the generator itself took."""

    answers: int
    rate: float
    p50: float
    p99: float
    longest: float
    failed: Mapping[str, int]
    samples: Mapping[str, Sequence[str]]
    cpu: float


class WrongAnswer(Exception):
    """A round that cannot count: requests failed, or answers were not those of the requests."""


class Generator:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def send(self, target: Target, connections: int, seconds: float) -> Load:
        """A round that counts only if every request was answered, and rightly."""
        load = self.watch(target, connections, seconds)
        if load.failed or not load.answers:
            raise WrongAnswer(f"{dict(load.failed) or 'no answer'} at {connections} connections")
        check(target, load)
        return load

    def watch(self, target: Target, connections: int, seconds: float, warm_seconds: float = WARM_SECONDS) -> Load:
        """A round as it went, failed requests and all."""
        self.begin(target, connections, seconds, warm_seconds)
        return self.result()

    def begin(self, target: Target, connections: int, seconds: float, warm_seconds: float = WARM_SECONDS) -> None:
        order = {
            "host": HOST,
            "port": target.port,
            "requests": [request.decode("latin-1") for request in target.requests()],
            "connections": connections,
            "seconds": seconds,
            "warm_seconds": warm_seconds,
        }
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def result(self) -> Load:
        assert self._process.stdout
        return Load(**json.loads(self._process.stdout.readline()))


def check(target: Target, load: Load) -> None:
    for number, bodies in load.samples.items():
        for body in bodies:
            found, right = target.reads(json.loads(body)), target.answers[int(number)]
            if found != right:
                raise WrongAnswer(f"request {number} was answered {found!r}, not {right!r}")


@contextmanager
def generator() -> Iterator[Generator]:
    command = [sys.executable, "-m", "bench.serving.generator"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Generator(process)
        assert process.stdin
        process.stdin.close()
