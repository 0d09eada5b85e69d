from datetime import UTC, datetime, timedelta


class FakeClock:
    """Clock that moves only by `sleep` and `advance`."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))

    def advance(self, by: timedelta) -> None:
        self._now += by
