from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Current time, aware and in UTC."""

    def sleep(self, seconds: float) -> None: ...
