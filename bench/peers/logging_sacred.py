"""Sacred with its file observer: what log_scalar costs, or points a second until its file has them all."""

import json
import sys
import time

from answering import answer
from sacred import Experiment
from sacred.observers import FileStorageObserver

CALLS, POINTS = 20_000, 100_000


def run(main):
    experiment = Experiment("bench", save_git_info=False)
    observer = FileStorageObserver("sacred")
    experiment.observers.append(observer)
    experiment.main(main)
    return experiment.run().result, observer


def call():
    def main(_run):
        taken = []
        for step in range(CALLS):
            begun = time.perf_counter_ns()
            _run.log_scalar("loss", 0.25, step)
            taken.append(time.perf_counter_ns() - begun)
        return sorted(taken)[CALLS // 2] / 1000

    return run(main)[0]


def readable():
    def main(_run):
        begun = time.perf_counter()
        for step in range(POINTS):
            _run.log_scalar("loss", 0.25, step)
        return begun

    begun, observer = run(main)
    while stored(observer.dir + "/metrics.json") < POINTS:
        time.sleep(0.01)
    return POINTS / (time.perf_counter() - begun)


def stored(path):
    """How many points the file holds; its writer may be in the middle of it."""
    try:
        with open(path) as source:
            return len(json.load(source)["loss"]["values"])
    except (OSError, ValueError, KeyError):
        return 0


answer(call if sys.argv[1] == "call" else readable)
