from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class MetricKind(StrEnum):
    SCALAR = "scalar"
    LIST = "list"
    ROW = "row"
    TABLE = "table"
    IMAGE = "image"

    @property
    def family(self) -> "MetricKind":
        """Kind that identifies the metric: scalars and lists of one name are one metric, each other kind is another."""
        return MetricKind.SCALAR if self is MetricKind.LIST else self


@dataclass
class MetricBatch:
    """New points of one metric, as columns in the order they were logged; `kind` is the first point's.

    A value is a scalar, a row or table as a dict, or an artifact path. A list is stored as its elements.
    """

    name: str
    kind: MetricKind
    values: list[Any] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)
    at: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class MetricSummary:
    name: str
    kind: MetricKind
    count: int
    last: float | None
    minimum: float | None
    maximum: float | None


@dataclass(frozen=True)
class MetricSeries:
    """All values of one metric in the order they arrived.

    `type` is "i" (all integers), "f" (numbers, some of them floats) or "j" (anything else).
    """

    name: str
    kind: MetricKind
    type: str
    values: Sequence[Any]
    steps: Sequence[int | None]
    at: Sequence[float]


def as_number(value: Any) -> float | None:
    """The value as a float; None for a string, a bool or an integer too large for a float. NaN is a number."""
    if type(value) not in (int, float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
