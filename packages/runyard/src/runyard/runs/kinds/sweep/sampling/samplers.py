"""Samplers: the values of a trial depend only on the seed, the number of the trial and the known trials."""

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runyard.core.records.runs import RunId
from runyard.core.records.sweeps import SweepSpec, Values
from runyard.runs.kinds.sweep.sampling.axes import axes_of
from runyard.runs.kinds.sweep.sampling.bayesian import BayesianSampler
from runyard.runs.kinds.sweep.sampling.expressions import options_of, value_at
from runyard.runs.kinds.sweep.sampling.observations import KnownTrial
from runyard.runs.kinds.sweep.sampling.sobol import sobol_point
from runyard.runs.kinds.sweep.sampling.space import BAYESIAN, GRID, Space


class Sampler(Protocol):
    """Deterministic: the same arguments give the same values, in any process."""

    def sample(self, number: int, known: Sequence[KnownTrial]) -> Values | None:
        """Values of that trial; None if no values are left."""


def sampler_of(spec: SweepSpec, seed: int) -> Sampler:
    """Sampler of a sweep. Trials that resume earlier children come first and are not sampled."""
    if spec.sampling == GRID:
        return GridSampler(spec.space, first=len(spec.resume_child_runs))
    if spec.sampling == BAYESIAN:
        return BayesianSampler(axes_of(spec.space), spec.goal, seed)
    if spec.rule == "sobol":
        return SobolSampler(spec.space, seed, first=len(spec.resume_child_runs))
    return RandomSampler(spec.space, seed)


def most_trials(spec: SweepSpec) -> int:
    """Number of trials of a sweep that runs to its end, including those that resume earlier children."""
    if spec.sampling != GRID:
        return spec.max_total_runs
    return min(spec.max_total_runs, len(spec.resume_child_runs) + _combinations(spec.space))


def seed_of(spec: SweepSpec, sweep_id: RunId) -> int:
    """Seed of the definition; without one, a hash of the sweep's id."""
    return spec.seed if spec.seed is not None else int(hashlib.sha256(sweep_id.encode()).hexdigest()[:8], 16)


@dataclass(frozen=True)
class RandomSampler:
    space: Space
    seed: int

    def sample(self, number: int, known: Sequence[KnownTrial]) -> Values:
        # Seeded by the name of each parameter, so that their order does not matter.
        return {
            name: value_at(expression, random.Random(f"{self.seed}/{number}/{name}").random())
            for name, expression in self.space.items()
        }


@dataclass(frozen=True)
class SobolSampler:
    space: Space
    seed: int
    first: int = 0

    def sample(self, number: int, known: Sequence[KnownTrial]) -> Values:
        point = sobol_point(number - self.first, len(self.space), self.seed)
        at = dict(zip(sorted(self.space), point, strict=True))
        return {name: value_at(expression, at[name]) for name, expression in self.space.items()}


@dataclass(frozen=True)
class GridSampler:
    """Every combination once; the last parameter changes fastest."""

    space: Space
    first: int = 0

    def sample(self, number: int, known: Sequence[KnownTrial]) -> Values | None:
        index = number - self.first
        if index >= _combinations(self.space):
            return None
        chosen = {}
        for name, expression in reversed(list(self.space.items())):
            options = options_of(expression)
            index, option = divmod(index, len(options))
            chosen[name] = options[option]
        return {name: chosen[name] for name in self.space}


def _combinations(space: Space) -> int:
    return math.prod(len(options_of(expression)) for expression in space.values())
