import time


class Usage:
    """Average number of busy worker slots: integrates the level over time."""

    def __init__(self) -> None:
        self._level = 0.0
        self._area = 0.0
        self._changed_at = self._read_at = time.monotonic()

    def add(self, change: float, now: float) -> None:
        self._area += self._level * (now - self._changed_at)
        self._level, self._changed_at = self._level + change, now

    def read(self) -> float:
        """Mean level since the last call."""
        now = time.monotonic()
        self.add(0.0, now)
        seconds, area = now - self._read_at, self._area
        self._area, self._read_at = 0.0, now
        return area / seconds if seconds > 0 else self._level
