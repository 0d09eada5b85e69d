import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pkgutil import resolve_name

from runyard.core.records.sweeps import Goal, Values
from runyard.runs.kinds.sweep.fields import is_finite
from runyard.runs.kinds.sweep.sampling.axes import Axes, Point
from runyard.runs.kinds.sweep.sampling.observations import KnownTrial, ModelPoint
from runyard.runs.kinds.sweep.sampling.sobol import MOST_DIMENSIONS, sobol_point

FIRST_POINTS = 10
"""Points that are spread evenly before a model is used."""
FEWEST_ENDED = 5
"""Ended trials that the model needs."""
MOST_FOR_PROCESS = 60
MOST_AXES_FOR_PROCESS = 20
"""Up to these limits a Gaussian process is fast, and finds better values than Parzen (bench/bayesian.py)."""
MOST_PROPOSALS = 4
"""Further proposals to try if the first one was tried before."""

Model = Callable[[Axes, Sequence[ModelPoint], int], Iterator[Point]]
# Imported on first use: numpy and Optuna take 0.2 s that only such a sweep needs.
GAUSSIAN_PROCESS = "runyard.runs.kinds.sweep.sampling.gaussian_process:proposed_points"
PARZEN = "runyard.runs.kinds.sweep.sampling.parzen:proposed_points"


@dataclass(frozen=True)
class BayesianSampler:
    """Bayesian sampling: values near good ones, and away from those that are being tried.

    The model is built from the known trials at each call, so it needs no storage. Known values outside this space,
    which a resumed sweep may have, are ignored. Values are repeated only if all others were tried.
    """

    axes: Axes
    goal: Goal
    seed: int

    def sample(self, number: int, known: Sequence[KnownTrial]) -> Values:
        points = [(point, each) for each in known if (point := self.axes.point_of(each.values)) is not None]
        taken = {point for point, _ in points}
        rng = random.Random(f"{self.seed}/{number}")
        proposals = self._proposals(number, points, rng)
        first = next(proposals)
        if first not in taken or len(taken) >= self.axes.points:
            return self.axes.values_at(first)
        others = (point for point in islice(proposals, MOST_PROPOSALS) if point not in taken)
        other: Point | None = next(others, None)
        return self.axes.values_at(other or self.axes.free_point(taken, rng) or first)

    def _proposals(
        self, number: int, points: Sequence[tuple[Point, KnownTrial]], rng: random.Random
    ) -> Iterator[Point]:
        observed = [ModelPoint(point, self._loss(each), each.is_pending) for point, each in points]
        if len(observed) < FIRST_POINTS or sum(not each.is_pending for each in observed) < FEWEST_ENDED:
            return self._evenly(number, rng)
        return self._model(len(observed))(self.axes, observed, rng.getrandbits(32))

    def _model(self, observed: int) -> Model:
        is_small = observed <= MOST_FOR_PROCESS and len(self.axes.axes) <= MOST_AXES_FOR_PROCESS
        model: Model = resolve_name(GAUSSIAN_PROCESS if is_small else PARZEN)
        return model

    def _evenly(self, number: int, rng: random.Random) -> Iterator[Point]:
        dimensions = len(self.axes.axes)
        if dimensions <= MOST_DIMENSIONS:
            yield self.axes.point_at(sobol_point(number, dimensions, self.seed))
        while True:
            yield self.axes.point_at([rng.random() for _ in range(dimensions)])

    def _loss(self, known: KnownTrial) -> float | None:
        if known.score is None or not is_finite(known.score):
            return None
        return -known.score if self.goal is Goal.MAXIMIZE else known.score
