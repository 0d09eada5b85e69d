import math
from dataclasses import dataclass

from runyard.model.web_services import Scale

_CALM_LOOKS = 10
"""A quiet moment is no reason to end workers that the next one needs."""


@dataclass
class Autoscale:
    """How many replicas a web service should have, from what it is asked; remembers for how long it was calm."""

    calm_looks: int = 0

    def wanted(self, scale: Scale, replicas: int, utilization: float, queued: int) -> int:
        """Between the bounds: more at once when the target is passed or requests wait, fewer after a calm while."""
        at_target = math.ceil(replicas * utilization * 100 / max(1, scale.target_utilization))
        needed = max(at_target, replicas + 1 if queued > replicas * scale.requests_at_once else 0)
        if needed >= replicas:
            self.calm_looks = 0
            return _within(scale, needed)
        self.calm_looks += 1
        if self.calm_looks < _CALM_LOOKS:
            return _within(scale, replicas)
        self.calm_looks = 0
        return _within(scale, replicas - 1)


def _within(scale: Scale, count: int) -> int:
    return max(scale.least, min(count, scale.most), 1)
