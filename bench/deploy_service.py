"""Deploying a registered scikit-learn model whose environment is built, until its first answer.

The floor is a process by hand that loads the same model in the same environment and predicts once: what the model's own
libraries cost. Peers are started by hand with the model at hand, until their first answer.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from bench.home import Home, open_home
from bench.measuring import Bar, Measurement, Subject, at_most, interleaved, median, seconds_of, spread_of
from bench.peers.process import PeerFailed
from bench.serve_noop import SCRIPT
from bench.serving.deploying import METHOD, deployed, labels, register_iris, script
from bench.serving.iris import PEERS, Iris, make_iris_for_peers
from bench.serving.servers import THREADS, Kind, serving

REPEATS = 5
ALL_OURS = "a script that imports nothing"
BY_HAND = """
import sys, joblib, sklearn
print(joblib.load(sys.argv[1]).predict([[5.1, 3.5, 1.4, 0.2]]))
"""


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, open_home() as home:
        iris = make_iris_for_peers(Path(folder, "model"))
        reasons: dict[str, str] = {}
        subjects: dict[str, Subject] = {"ours": _until_first_answer(home, iris)}
        subjects["ours"]()  # builds the environment
        subjects[ALL_OURS] = _until_echo(home)
        subjects["floor"] = seconds_of(lambda python=_python(home): _by_hand(python, iris))
        for name, kind in PEERS.items():
            subjects[name] = _start(name, kind, iris, Path(folder, "peers"), reasons)
        taken = interleaved(subjects, REPEATS, rarely=PEERS, rare=REPEATS)
    own, floor = taken["ours"], taken["floor"]
    peers = {name: None if name in reasons else median(taken[name]) for name in PEERS}
    title = "deploy a registered scikit-learn model until its first answer"
    yield Measurement(title, median(own), "s", at_most(3, "s"), median(floor), spread_of(own), peers, reasons)
    beyond = [ours - by_hand for ours, by_hand in zip(own, floor, strict=True)]
    alone = median(taken[ALL_OURS])
    bar = Bar("under 0.5 s, and so is a script that imports nothing", lambda value, _: max(value, alone) < 0.5)
    title, also = f"{title}, beyond the model's own libraries", {f"{ALL_OURS} s": alone}
    yield Measurement(title, median(beyond), "s", bar, spread=abs(spread_of(beyond)), also=also)


def _until_first_answer(home: Home, iris: Iris) -> Subject:
    model, numbers = register_iris(home, iris.model), count()
    asked = json.dumps({"data": [list(iris.question.rows[0])], "method": METHOD})

    def subject() -> float:
        begun = time.perf_counter()
        service = deployed(home, f"iris-{next(numbers)}", [model])
        answer = service.run(asked)
        seconds = time.perf_counter() - begun
        assert labels(answer) == iris.question.answers[0], answer
        service.delete()
        return seconds

    return subject


def _until_echo(home: Home) -> Subject:
    """The same way with nothing to import: no difference of two figures, but ours alone."""
    inference, numbers = script(home, "no-op", SCRIPT), count()

    def subject() -> float:
        begun = time.perf_counter()
        service = deployed(home, f"no-op-{next(numbers)}", [], inference)
        answer = service.run("{}")
        seconds = time.perf_counter() - begun
        assert answer == "{}", answer
        service.delete()
        return seconds

    return subject


def _python(home: Home) -> str:
    """Of the environment that the deployment built."""
    found = list((home.path / "environments").glob("*/bin/python"))
    assert len(found) == 1, found
    return str(found[0])


def _by_hand(python: str, iris: Iris) -> None:
    subprocess.run([python, "-c", BY_HAND, str(iris.model)], check=True, capture_output=True, env=THREADS)


def _start(name: str, kind: Kind, iris: Iris, folder: Path, reasons: dict[str, str]) -> Subject:
    def subject() -> float:
        if name not in reasons:
            try:
                with serving(kind, iris.question, iris.model, folder / name) as server:
                    return server.seconds
            except PeerFailed as failure:
                reasons[name] = str(failure)
        return float("nan")

    return subject
