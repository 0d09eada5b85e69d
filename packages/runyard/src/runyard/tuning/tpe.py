"""Placeholder."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.model.sweeps import Goal, Values
from runyard.tuning.expressions import value_at
from runyard.tuning.known import Known
from runyard.tuning.space import Space


@dataclass(frozen=True)
class BayesianSampler:
    space: Space
    goal: Goal
    seed: int

    def sample(self, number: int, known: Sequence[Known]) -> Values:
        return {
            name: value_at(expression, random.Random(f"{self.seed}/{number}/{name}").random())
            for name, expression in self.space.items()
        }
