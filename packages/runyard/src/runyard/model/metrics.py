from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class MetricKind(StrEnum):
    SCALAR = "scalar"
    LIST = "list"
    ROW = "row"
    TABLE = "table"
    IMAGE = "image"


class MetricPoint(NamedTuple):
    """One log call. `value` is a scalar, a list, a row or table as a dict, or an artifact path."""

    name: str
    kind: MetricKind
    value: Any
    step: int | None
    at: float


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
