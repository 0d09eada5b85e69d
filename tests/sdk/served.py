"""Scoring scripts on this interpreter, deployed as a user's notebook does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from azureml.core import Environment, Model, Workspace
from azureml.core.model import InferenceConfig

ECHO = """
import json, os

def init():
    global said
    said = "{said}"
    print("init of", said)

def run(data):
    return {{"said": said, "got": json.loads(data)}}
"""
FAILING = """
def init():
    print("about to fail")
    raise ValueError("the weights are of another shape")

def run(data):
    return 1
"""


def here() -> Environment:
    """This interpreter as it is: nothing has to be built."""
    made = Environment("here")
    made.python.user_managed_dependencies = True
    return made


def echo_script(folder: Path, said: str, name: str = "score.py") -> InferenceConfig:
    """A script that answers with `said` and what it got."""
    (folder / name).write_text(ECHO.format(said=said))
    return InferenceConfig(name, source_directory=str(folder), environment=here())


def a_model(workspace: Workspace, folder: Path, name: str = "net", **facts: Any) -> Model:
    (folder / "weights.bin").write_bytes(b"weights")
    return Model.register(workspace, str(folder / "weights.bin"), name, **facts)


@contextmanager
def deployed(workspace: Workspace, name: str, *arguments: Any, **more: Any) -> Iterator[Any]:
    """A web service that answers, for as long as the block lasts."""
    service = Model.deploy(workspace, name, *arguments, **more)
    try:
        service.wait_for_deployment()
        yield service
    finally:
        service.delete()
