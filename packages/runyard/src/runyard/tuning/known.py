from dataclasses import dataclass

from runyard.model.sweeps import Values


@dataclass(frozen=True)
class Known:
    """A trial that a sampler learns from. One that ended without a number has no score and is not pending."""

    values: Values
    score: float | None = None
    is_pending: bool = False
