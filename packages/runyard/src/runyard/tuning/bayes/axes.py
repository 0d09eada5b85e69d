"""A parameter space as a model sees it: one axis a parameter, a point of numbers a trial.

The options of a choice are counted from 0, the steps of a quniform are the multiples of its q, and a uniform is a line.
"""

import json
import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runyard.core.definitions.sweep import Expression
from runyard.model.sweeps import Values
from runyard.tuning.expressions import options_of, value_at
from runyard.tuning.space import Space

Point = tuple[float, ...]


class AxisKind(Enum):
    OPTIONS = "options"
    STEPS = "steps"
    LINE = "line"


@dataclass(frozen=True)
class Axis:
    """`low` and `high` are the ends, both of them on the axis."""

    name: str
    kind: AxisKind
    low: float
    high: float
    expression: Expression
    options: Mapping[str, int] = field(default_factory=dict)

    @property
    def places(self) -> float:
        """How many values there are."""
        return math.inf if self.kind is AxisKind.LINE else self.high - self.low + 1

    def value_at(self, place: float) -> Any:
        if self.kind is AxisKind.OPTIONS:
            return options_of(self.expression)[int(place)]
        return place if self.kind is AxisKind.LINE else place * self.expression.arguments[2]

    def place_of(self, value: Any) -> float | None:
        """None for a value that is not on the axis, as those of another sweep may be."""
        if self.kind is AxisKind.OPTIONS:
            return self.options.get(json.dumps(value))
        if not isinstance(value, int | float) or not math.isfinite(value):
            return None
        place = value if self.kind is AxisKind.LINE else round(value / self.expression.arguments[2])
        return place if self.low <= place <= self.high else None

    def place_at(self, quantile: float) -> float:
        place = self.place_of(value_at(self.expression, quantile))
        return self.low if place is None else place


@dataclass(frozen=True)
class Axes:
    """Those of a space, by name, so that another order of the space changes nothing."""

    axes: Sequence[Axis]

    @property
    def points(self) -> float:
        """How many points there are; infinite where one axis is a line."""
        places = [axis.places for axis in self.axes]
        return math.inf if math.inf in places else math.prod(places)

    def point_of(self, values: Values) -> Point | None:
        places = [axis.place_of(values[axis.name]) if axis.name in values else None for axis in self.axes]
        found = [place for place in places if place is not None]
        return tuple(found) if len(found) == len(places) == len(values) else None

    def values_at(self, point: Point) -> dict[str, Any]:
        return {axis.name: axis.value_at(place) for axis, place in zip(self.axes, point, strict=True)}

    def point_at(self, quantiles: Sequence[float]) -> Point:
        return tuple(axis.place_at(quantile) for axis, quantile in zip(self.axes, quantiles, strict=True))

    def untaken(self, taken: Collection[Point], chance: random.Random) -> Point | None:
        """A point that is not taken; None where all are, or where they cannot be counted."""
        if math.isinf(self.points):
            return None
        points = int(self.points)
        start = chance.randrange(points)
        for step in range(min(points, len(taken) + 1)):
            point = self._point((start + step) % points)
            if point not in taken:
                return point
        return None

    def _point(self, index: int) -> Point:
        places = []
        for axis in self.axes:
            index, place = divmod(index, int(axis.places))
            places.append(axis.low + place)
        return tuple(places)


def axes_of(space: Space) -> Axes:
    return Axes([_axis(name, space[name]) for name in sorted(space)])


def _axis(name: str, expression: Expression) -> Axis:
    if expression.kind == "choice":
        options = options_of(expression)
        places: dict[str, int] = {}
        for place, option in enumerate(options):
            places.setdefault(json.dumps(option), place)
        return Axis(name, AxisKind.OPTIONS, 0, len(options) - 1, expression, places)
    low, high = expression.arguments[:2]
    if expression.kind == "uniform":
        return Axis(name, AxisKind.LINE, float(low), float(high), expression)
    q = expression.arguments[2]
    return Axis(name, AxisKind.STEPS, round(low / q), round(high / q), expression)
