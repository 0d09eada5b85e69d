"""A scoring script whose init() raises: from deploy() until wait_for_deployment() has raised what init() did."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

from azureml.exceptions import WebserviceException
from bench.home import Home, open_home
from bench.measuring import Measurement, Subject, at_most, interleaved, median, spread_of
from bench.serving.deploying import deploy, script

REPEATS = 7
SCRIPT = """
def init():
    raise ValueError("the weights are for another network")

def run(data):
    return data
"""


def measure() -> Iterator[Measurement]:
    with open_home() as home:
        taken = interleaved({"ours": _until_raised(home)}, REPEATS)["ours"]
    title = "a failing init() until wait_for_deployment() raises it"
    yield Measurement(title, median(taken), "s", at_most(5, "s"), spread=spread_of(taken))


def _until_raised(home: Home) -> Subject:
    inference, numbers = script(home, "failing", SCRIPT), count()

    def subject() -> float:
        begun = time.perf_counter()
        service = deploy(home, f"failing-{next(numbers)}", [], inference)
        raised = _raised_by(service)
        seconds = time.perf_counter() - begun
        assert "the weights are for another network" in raised, raised
        service.delete()
        return seconds

    return subject


def _raised_by(service: Any) -> str:
    try:
        service.wait_for_deployment()
    except WebserviceException as raised:
        return str(raised)
    return "nothing was raised"
