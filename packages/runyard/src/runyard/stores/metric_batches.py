"""One delivery of points, sorted out by metric and summed up, before it meets the database."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.model.metrics import MetricKind, MetricPoint
from runyard.stores.keys import index_key

MetricKey = tuple[str, str]
"""Name as indexed, and family: a scalar and a list of one name are one metric, a row or a table is another."""


@dataclass
class MetricBatch:
    """The new points of one metric, as columns. A list counts as its elements."""

    name: str
    kind: MetricKind
    values: list[Any] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)
    at: list[float] = field(default_factory=list)


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


def by_metric(points: Sequence[MetricPoint]) -> dict[MetricKey, MetricBatch]:
    """In the order of first appearance."""
    batches: dict[tuple[str, MetricKind], MetricBatch] = {}
    for name, kind, value, step, at in points:
        batch = batches.get((name, kind))
        if batch is None:
            family = MetricKind.SCALAR if kind is MetricKind.LIST else kind
            batch = batches.setdefault((name, family), MetricBatch(name, kind))
            batches[name, kind] = batch
        if kind is MetricKind.LIST:
            batch.values += value
            batch.steps += [step] * len(value)
            batch.at += [at] * len(value)
        else:
            batch.values.append(value)
            batch.steps.append(step)
            batch.at.append(at)
    return {
        (index_key(name), family.value): batch
        for (name, family), batch in batches.items()
        if family is not MetricKind.LIST and batch.values
    }


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
