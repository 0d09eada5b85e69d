import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runyard.model.metrics import as_number


@dataclass(frozen=True)
class NumberSummary:
    """Summary of the numbers of a metric, without NaN and other values. None if there are no numbers."""

    last: float | None = None
    minimum: float | None = None
    maximum: float | None = None

    def then(self, later: "NumberSummary") -> "NumberSummary":
        last = self.last if later.last is None else later.last
        return NumberSummary(last, lowest(self.minimum, later.minimum), highest(self.maximum, later.maximum))


def lowest(*numbers: float | None) -> float | None:
    return min((number for number in numbers if number is not None), default=None)


def highest(*numbers: float | None) -> float | None:
    return max((number for number in numbers if number is not None), default=None)


def summed_up(values: Sequence[Any]) -> NumberSummary:
    numbers = [number for value in values if (number := as_number(value)) is not None and not math.isnan(number)]
    return NumberSummary(numbers[-1], min(numbers), max(numbers)) if numbers else NumberSummary()
