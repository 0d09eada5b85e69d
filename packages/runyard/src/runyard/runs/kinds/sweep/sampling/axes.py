"""A parameter space for a model: one numeric axis for each parameter, one point for each trial.

A choice is numbered by option from 0, a quniform by multiples of q; a uniform keeps its values.
"""

import json
import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runyard.core.records.sweeps import Expression, Values
from runyard.runs.kinds.sweep.sampling.expressions import options_of, value_at
from runyard.runs.kinds.sweep.sampling.space import Space

Point = tuple[float, ...]


class AxisKind(Enum):
    OPTIONS = "options"
    STEPS = "steps"
    LINE = "line"


@dataclass(frozen=True)
class Axis:
    """One parameter. `low` and `high` are both on the axis."""

    name: str
    kind: AxisKind
    low: float
    high: float
    expression: Expression
    options: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> float:
        """Number of values on the axis."""
        return math.inf if self.kind is AxisKind.LINE else self.high - self.low + 1

    def value_at(self, position: float) -> Any:
        if self.kind is AxisKind.OPTIONS:
            return options_of(self.expression)[int(position)]
        return position if self.kind is AxisKind.LINE else position * self.expression.arguments[2]

    def position_of(self, value: Any) -> float | None:
        """Position of the value; None if it is not on the axis, which a value of another sweep may be."""
        if self.kind is AxisKind.OPTIONS:
            return self.options.get(json.dumps(value))
        if not isinstance(value, int | float) or not math.isfinite(value):
            return None
        position = value if self.kind is AxisKind.LINE else round(value / self.expression.arguments[2])
        return position if self.low <= position <= self.high else None

    def position_at(self, quantile: float) -> float:
        position = self.position_of(value_at(self.expression, quantile))
        return self.low if position is None else position


@dataclass(frozen=True)
class Axes:
    """Axes of a space, sorted by name, so that the order of the parameters does not matter."""

    axes: Sequence[Axis]

    @property
    def points(self) -> float:
        """Number of points; infinite if an axis is continuous."""
        sizes = [axis.size for axis in self.axes]
        return math.inf if math.inf in sizes else math.prod(sizes)

    def point_of(self, values: Values) -> Point | None:
        positions = [axis.position_of(values[axis.name]) if axis.name in values else None for axis in self.axes]
        found = [position for position in positions if position is not None]
        return tuple(found) if len(found) == len(positions) == len(values) else None

    def values_at(self, point: Point) -> dict[str, Any]:
        return {axis.name: axis.value_at(position) for axis, position in zip(self.axes, point, strict=True)}

    def point_at(self, quantiles: Sequence[float]) -> Point:
        return tuple(axis.position_at(quantile) for axis, quantile in zip(self.axes, quantiles, strict=True))

    def free_point(self, taken: Collection[Point], rng: random.Random) -> Point | None:
        """A point that is not in `taken`; None if there is none, or the space is continuous."""
        if math.isinf(self.points):
            return None
        points = int(self.points)
        start = rng.randrange(points)
        for step in range(min(points, len(taken) + 1)):
            point = self._point((start + step) % points)
            if point not in taken:
                return point
        return None

    def _point(self, index: int) -> Point:
        positions = []
        for axis in self.axes:
            index, position = divmod(index, int(axis.size))
            positions.append(axis.low + position)
        return tuple(positions)


def axes_of(space: Space) -> Axes:
    return Axes([_axis(name, space[name]) for name in sorted(space)])


def _axis(name: str, expression: Expression) -> Axis:
    if expression.kind == "choice":
        options = options_of(expression)
        positions: dict[str, int] = {}
        for position, option in enumerate(options):
            positions.setdefault(json.dumps(option), position)
        return Axis(name, AxisKind.OPTIONS, 0, len(options) - 1, expression, positions)
    low, high = expression.arguments[:2]
    if expression.kind == "uniform":
        return Axis(name, AxisKind.LINE, float(low), float(high), expression)
    q = expression.arguments[2]
    return Axis(name, AxisKind.STEPS, round(low / q), round(high / q), expression)
