"""What a model of the space learns from."""

from dataclasses import dataclass

from runyard.tuning.bayes.axes import Point


@dataclass(frozen=True)
class Observation:
    """A point that was tried: less `loss` is better; None where there is no number, or none yet."""

    point: Point
    loss: float | None
    is_pending: bool = False
