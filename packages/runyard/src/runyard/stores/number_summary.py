import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NumberSummary:
    """Of the numbers alone: NaN, strings and the like are left out. None when there are none."""

    last: float | None = None
    minimum: float | None = None
    maximum: float | None = None

    def then(self, later: "NumberSummary") -> "NumberSummary":
        lows = [low for low in (self.minimum, later.minimum) if low is not None]
        highs = [high for high in (self.maximum, later.maximum) if high is not None]
        last = self.last if later.last is None else later.last
        return NumberSummary(last, min(lows, default=None), max(highs, default=None))


def summed_up(values: Sequence[Any]) -> NumberSummary:
    try:
        if set(map(type, values)) <= {int, float} and not math.isnan(sum(values)):
            return NumberSummary(float(values[-1]), float(min(values)), float(max(values)))
    except OverflowError:  # an integer beyond any float is not among the numbers
        pass
    numbers = [number for value in values if (number := _number(value)) is not None]
    return NumberSummary(numbers[-1], min(numbers), max(numbers)) if numbers else NumberSummary()


def _number(value: Any) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isnan(number) else number
