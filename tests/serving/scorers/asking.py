"""Scorers asked as a worker asks them, in the environments of their frameworks."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import runyard_sdk

VARIABLES = {"PYTHONPATH": str(Path(runyard_sdk.__file__).parents[1])}
MODEL = {"name": "name", "version": 1}
PLACE = """
import os

def place(name):
    path = os.path.join(os.getcwd(), name, "name", "1")
    os.makedirs(path)
    return path + os.sep
"""
IN_ENVIRONMENT = """
import importlib, json, os, sys
from runyard_sdk.scoring.failure import InitFailed
from runyard_sdk.scoring.start import Start

class Request(object):
    def __init__(self, head, body):
        self.head, self.body = head, body.encode("utf-8")

def tell(value):
    os.write(told, json.dumps(value).encode("ascii") + b"\\n")

told = os.dup(1)
os.dup2(2, 1)
start = Start(**json.loads(sys.stdin.readline()))
try:
    scorer = importlib.import_module("runyard_sdk.scoring.scorers." + start.scorer.replace("-", "_")).load(start)
except InitFailed as error:
    tell({"problem": error.problem, "hint": error.hint})
else:
    tell({"schema": scorer.schema, "notes": start.notes})
    for line in sys.stdin:
        answers = scorer.score([Request(*one) for one in json.loads(line)])
        tell([[status, body.decode("utf-8")] for status, _, body in answers])
"""


class NotServed(Exception):
    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


@dataclass(frozen=True)
class Served:
    """A scorer that has loaded its model, the first version of `name`."""

    process: subprocess.Popen[str]
    schema: dict[str, Any]
    notes: list[str]

    def ask(self, *frame: Any) -> list[tuple[int, Any]]:
        """Status and JSON for each request of a frame: a body (text, or what becomes JSON), or (head, body)."""
        answers = _tell(self.process, [_request(one) for one in frame])
        return [(status, json.loads(body)) for status, body in answers]


@dataclass(frozen=True)
class Framework:
    python: Path
    scorer: str

    def make(self, code: str, folder: Path) -> None:
        """Run code that makes models below the folder; `place(name)` there is a new model's own folder."""
        command = [self.python, "-W", "ignore", "-c", PLACE + code]
        done = subprocess.run(
            command, cwd=folder, env=VARIABLES, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Served]:
        """What `place` of that name made, as the first version of a model. NotServed where that cannot be."""
        command = [self.python, "-W", "ignore", "-c", IN_ENVIRONMENT]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=VARIABLES, text=True) as process:
            try:
                told = _tell(process, {"scorer": self.scorer, "models_root": str(folder), "models": [MODEL]})
                if "problem" in told:
                    raise NotServed(told["problem"], told["hint"])
                yield Served(process, told["schema"], told["notes"])
            finally:
                process.stdin.close()

    def refusal(self, folder: Path) -> NotServed:
        """Why the model in the folder is not served."""
        try:
            with self.serve(folder):
                raise AssertionError("It is served.")
        except NotServed as refusal:
            return refusal


def _request(one: Any) -> tuple[Any, str]:
    head, body = one if isinstance(one, tuple) else (None, one)
    return head, body if isinstance(body, str) else json.dumps(body)


def _tell(process: subprocess.Popen[str], value: Any) -> Any:
    process.stdin.write(json.dumps(value) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())
