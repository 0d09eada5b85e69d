import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runyard.model.metrics import as_number
from runyard.stores.number_summary import NumberSummary, highest, lowest, summed_up


@dataclass(frozen=True)
class Score:
    """Result of a run for comparison by one metric: the numbers of the lowest rank that logged any.

    NaN and infinities are counted, but are neither minimum nor maximum. Without a number, the rank is None.
    """

    scored_rank: int | None = None
    scored_count: int | None = None
    scored_minimum: float | None = None
    scored_maximum: float | None = None

    def then(self, later: "Score") -> "Score":
        if self.scored_rank is None or later.scored_rank is None:
            return self if later.scored_rank is None else later
        if self.scored_rank != later.scored_rank:
            return min(self, later, key=lambda score: score.scored_rank or 0)
        return Score(
            self.scored_rank,
            (self.scored_count or 0) + (later.scored_count or 0),
            lowest(self.scored_minimum, later.scored_minimum),
            highest(self.scored_maximum, later.scored_maximum),
        )


def summed_up_and_scored(values: Sequence[Any], rank: int) -> tuple[NumberSummary, Score]:
    """Summary and score of a non-empty batch of one rank. Fast for the usual case of finite numbers."""
    try:
        if set(map(type, values)) <= {int, float} and math.isfinite(sum(values)):
            low, high = float(min(values)), float(max(values))
            return NumberSummary(float(values[-1]), low, high), Score(rank, len(values), low, high)
    except OverflowError:  # an integer too large for a float is not counted as a number
        pass
    return summed_up(values), _scored(values, rank)


def _scored(values: Sequence[Any], rank: int) -> Score:
    numbers = [number for value in values if (number := as_number(value)) is not None]
    if not numbers:
        return Score()
    finite = [number for number in numbers if math.isfinite(number)]
    return Score(rank, len(numbers), min(finite, default=None), max(finite, default=None))
