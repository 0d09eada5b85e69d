from dataclasses import dataclass

from runyard.tuning.bayes.axes import Point


@dataclass(frozen=True)
class Observation:
    """A tried point. Less `loss` is better; None without a number, or not yet."""

    point: Point
    loss: float | None
    is_pending: bool = False
