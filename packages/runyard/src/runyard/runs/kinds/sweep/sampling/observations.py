from dataclasses import dataclass

from runyard.core.records.sweeps import Values
from runyard.runs.kinds.sweep.sampling.axes import Point


@dataclass(frozen=True)
class KnownTrial:
    """A trial that a sampler learns from. One that ended without a number has no score and is not pending."""

    values: Values
    score: float | None = None
    is_pending: bool = False


@dataclass(frozen=True)
class ModelPoint:
    """A tried point. Less `loss` is better; None without a number, or not yet."""

    point: Point
    loss: float | None
    is_pending: bool = False
