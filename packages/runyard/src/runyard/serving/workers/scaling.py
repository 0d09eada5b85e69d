import math
from dataclasses import dataclass

from runyard.model.web_services import Scale

_CALM_CHECKS = 10
"""Scale down only after so many checks in a row with low load: a short pause must not end workers."""


@dataclass
class Autoscale:
    """Computes the number of replicas from the load; counts the checks with low load."""

    calm_checks: int = 0

    def wanted(self, scale: Scale, replicas: int, utilization: float, queued: int) -> int:
        """Within the bounds of `scale`: more at once above the target or when requests wait, one fewer after a calm
        while."""
        at_target = math.ceil(replicas * utilization * 100 / max(1, scale.target_utilization))
        needed = max(at_target, replicas + 1 if queued > replicas * scale.requests_at_once else 0)
        if needed >= replicas:
            self.calm_checks = 0
            return _within(scale, needed)
        self.calm_checks += 1
        if self.calm_checks < _CALM_CHECKS:
            return _within(scale, replicas)
        self.calm_checks = 0
        return _within(scale, replicas - 1)


def _within(scale: Scale, count: int) -> int:
    return max(scale.least, min(count, scale.most), 1)
