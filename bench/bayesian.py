"""How good the best of 30 Bayesian trials is, over 20 seeds: ours beside Optuna's own, one at a time and four.

Of four at a time, each trial takes its own time, and the next is asked for the moment one has ended.
"""

import heapq
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import optuna

from bench.measuring import Bar, Measurement, spread_of
from runyard.runs.kinds.sweep.sampling.observations import KnownTrial
from runyard.runs.kinds.sweep.sampling.samplers import sampler_of
from runyard.runs.kinds.sweep.spec import checked_sweep

TRIALS, SEEDS, AT_A_TIME = 30, 20, 4
FIRST_SEED = 1000  # the settings of the sampler were chosen on those below
WORSE_AT_MOST = 0.1

Point = Sequence[float]
Ask = Callable[[int], Point]
Tell = Callable[[int, float], None]


@dataclass(frozen=True)
class Function:
    """One to minimize, between the bounds of each of its arguments."""

    name: str
    bounds: Sequence[tuple[float, float]]
    value: Callable[[Point], float]


def measure() -> Iterator[Measurement]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for function in (BRANIN, HARTMANN):
        floor = _bests(function, _optuna, 1)
        peers = {
            "Optuna": statistics.mean(floor),
            f"Optuna, {AT_A_TIME} at a time": statistics.mean(_bests(function, _optuna, AT_A_TIME)),
            "random": statistics.mean(_bests(function, _random, 1)),
        }
        for at_a_time, bar in ((1, _within_spread(floor)), (AT_A_TIME, _hardly_worse())):
            found = _bests(function, _ours, at_a_time)
            yield Measurement(
                f"best of {TRIALS} Bayesian trials, {function.name}, {at_a_time} at a time",
                statistics.mean(found),
                "mean of the least value",
                bar,
                floor=statistics.mean(floor),
                spread=abs(spread_of(found)),
                peers=peers,
                also={"quarters": statistics.quantiles(found), "quarters of Optuna": statistics.quantiles(floor)},
            )


def _within_spread(floor: Sequence[float]) -> Bar:
    error = statistics.stdev(floor) / math.sqrt(len(floor))
    return Bar(
        f"no worse than Optuna, one at a time, within the standard error of its {SEEDS} seeds",
        lambda value, mean: value <= mean + error,
    )


def _hardly_worse() -> Bar:
    return Bar(
        f"at most {WORSE_AT_MOST:.0%} worse than Optuna, one at a time",
        lambda value, mean: value <= mean + WORSE_AT_MOST * abs(mean),
    )


def _bests(function: Function, tuner: Callable[[Function, int], tuple[Ask, Tell]], at_a_time: int) -> list[float]:
    return [_best(function, *tuner(function, seed), seed, at_a_time) for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]


def _best(function: Function, ask: Ask, tell: Tell, seed: int, at_a_time: int) -> float:
    duration = random.Random(f"durations/{seed}")
    going: list[tuple[float, int, float]] = []
    now, values = 0.0, []
    for number in range(TRIALS):
        if len(going) == at_a_time:
            now, ended, value = heapq.heappop(going)
            tell(ended, value)
        values.append(function.value(ask(number)))
        heapq.heappush(going, (now + duration.uniform(0.5, 1.5), number, values[-1]))
    return min(values)


def _ours(function: Function, seed: int) -> tuple[Ask, Tell]:
    names = [f"x{place}" for place in range(len(function.bounds))]
    space = {name: ["uniform", list(bounds)] for name, bounds in zip(names, function.bounds, strict=True)}
    asked = {
        "sampling": {"name": "BayesianOptimization", "parameter_space": space},
        "primary_metric": {"name": "value", "goal": "minimize"},
        "max_total_runs": TRIALS,
    }
    sampler, known = sampler_of(checked_sweep(asked), seed), list[KnownTrial]()

    def ask(number: int) -> Point:
        values = sampler.sample(number, known)
        assert values is not None, "a Bayesian sweep never runs out of values"
        known.append(KnownTrial(values, is_pending=True))
        return [values[name] for name in names]

    def tell(number: int, value: float) -> None:
        known[number] = KnownTrial(known[number].values, value)

    return ask, tell


def _optuna(function: Function, seed: int) -> tuple[Ask, Tell]:
    return _by_study(function, optuna.samplers.TPESampler(seed=seed))


def _random(function: Function, seed: int) -> tuple[Ask, Tell]:
    return _by_study(function, optuna.samplers.RandomSampler(seed=seed))


def _by_study(function: Function, sampler: optuna.samplers.BaseSampler) -> tuple[Ask, Tell]:
    study, trials = optuna.create_study(sampler=sampler), list[optuna.Trial]()

    def ask(number: int) -> Point:
        trials.append(study.ask())
        return [trials[number].suggest_float(f"x{place}", *ends) for place, ends in enumerate(function.bounds)]

    def tell(number: int, value: float) -> None:
        study.tell(trials[number], value)

    return ask, tell


def _branin(point: Point) -> float:
    x, y = point
    curved = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return curved**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


_HEIGHTS = (1.0, 1.2, 3.0, 3.2)
_WIDTHS = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
_PEAKS = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def _hartmann(point: Point) -> float:
    return -sum(
        height * math.exp(-sum(width * (x - at) ** 2 for width, x, at in zip(widths, point, peak, strict=True)))
        for height, widths, peak in zip(_HEIGHTS, _WIDTHS, _PEAKS, strict=True)
    )


BRANIN = Function("Branin", ((-5.0, 10.0), (0.0, 15.0)), _branin)
HARTMANN = Function("Hartmann-6", ((0.0, 1.0),) * 6, _hartmann)
