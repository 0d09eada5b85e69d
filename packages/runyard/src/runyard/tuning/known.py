"""What a sampler may learn from."""

from dataclasses import dataclass

from runyard.model.sweeps import Values


@dataclass(frozen=True)
class Known:
    """One earlier trial. One that ended without a number, or failed, has no score and is not pending."""

    values: Values
    score: float | None = None
    is_pending: bool = False
