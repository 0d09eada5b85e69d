"""New versions of a model take the place of old ones under load: how many requests fail."""

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.home import open_home
from bench.measuring import Bar, Measurement
from bench.serving.deploying import deployed, labels, no_code_target, register_iris
from bench.serving.iris import make_iris
from bench.serving.load import Load, Target, generator
from bench.serving.servers import asked

CONNECTIONS, SECONDS, UPDATES = 16, 12.0, 3
SHIFT = 10
"""The second version answers with labels that are higher by so much."""


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, generator() as load, open_home() as home:
        iris, other = make_iris(Path(folder, "one")), make_iris(Path(folder, "two"), shift=SHIFT)
        models = [register_iris(home, made.model) for made in (iris, other)]
        service = deployed(home, "iris", models[:1])
        asks = no_code_target(service, iris.question)
        answers = [iris.question.answers, other.question.answers]
        load.begin(asks, CONNECTIONS, SECONDS)
        seconds = [_update(service, models[turn % 2], replace(asks, answers=answers[turn % 2])) for turn in (1, 2, 3)]
        seen = load.result()
        _check(seen, answers)
    also = {"requests": seen.answers, "updates": UPDATES, "seconds of each": seconds, "p99 ms": seen.p99}
    also |= {"longest ms": seen.longest, "failures": dict(seen.failed)}
    failed, bar = float(sum(seen.failed.values())), Bar("none", lambda value, _: value == 0 and seen.answers > 0)
    yield Measurement(f"update under load, c={CONNECTIONS}", failed, "failed requests", bar, also=also)


def _update(service: Any, model: Any, expected: Target) -> float:
    """Seconds until the new version answers, and nothing else does."""
    begun = time.perf_counter()
    service.update(models=[model])
    service.wait_for_deployment()
    seconds = time.perf_counter() - begun
    answer = asked(expected)
    assert answer is not None
    assert labels(json.loads(answer)) == expected.answers[0], answer
    return seconds


def _check(seen: Load, answers: list[Any]) -> None:
    """Every answer is that of one version or the other, and both have been seen."""
    for number, bodies in seen.samples.items():
        found = {tuple(labels(json.loads(body))) for body in bodies}
        assert found == {tuple(version[int(number)]) for version in answers}, (number, found)
