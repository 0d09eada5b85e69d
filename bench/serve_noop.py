"""A scoring script that does nothing, under load: against uvicorn with a bare Starlette route that echoes."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.home import open_home
from bench.measuring import Bar, Measurement, times_floor
from bench.serving.deploying import deployed, script, script_target
from bench.serving.iris import UVICORN, make_iris
from bench.serving.load import generator
from bench.serving.rounds import CONNECTIONS, FLOOR, OURS, Rounds
from bench.serving.servers import serving, trivial

ROUNDS, RARE, SECONDS = 5, 2, 1.2
SCRIPT = """
def init():
    pass

def run(data):
    return data
"""
TITLE = "no-op scoring script"
HALF = Bar("at least 0.5 x floor", lambda value, floor: value >= 0.5 * floor)
CEILING = "the load generator's own most"


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        iris = make_iris(Path(folder, "model"))
        load = opened.enter_context(generator())
        floor = opened.enter_context(serving(UVICORN, iris.question, iris.model, Path(folder, "floor"))).target
        ceiling = opened.enter_context(trivial(iris.question, Path(folder, "ceiling")))
        home = opened.enter_context(open_home())
        ours = script_target(deployed(home, "no-op", [], script(home, "no-op", SCRIPT)), iris.question)
        targets = {
            OURS: replace(ours, bodies=floor.bodies, answers=[body.decode() for body in floor.bodies]),
            FLOOR: replace(floor, path="/echo", answers=[json.loads(body) for body in floor.bodies]),
            CEILING: ceiling,
        }
        rounds = Rounds(load, targets, {})
        rounds.play(ROUNDS, SECONDS, rarely=(CEILING,), rare=RARE)
    for connections in CONNECTIONS:
        yield rounds.measurement(TITLE, connections, lambda *_: HALF)
        yield rounds.tail(TITLE, connections, times_floor(3))
