import asyncio
import os
from pathlib import Path

from runyard.errors import StandingBy
from runyard.figures.reading import Reading
from runyard.stores.database import Database
from runyard.stores.tallies import ping

DATABASE, STANDING_BY, DISK = "database unreachable", "standing by", "disk full"
_KEEP_SECONDS, _LONGEST_SECONDS = 1.0, 3.0


class Readiness:
    """Whether the service can work. Reads database and disk at most once a second, however many probes come."""

    def __init__(self, database: Database, home: Path, least_free_bytes: int) -> None:
        self._home, self._least = home, least_free_bytes
        self._ping = Reading(lambda: ping(database), _KEEP_SECONDS)

    async def why_not(self) -> str:
        """Reason why the service is not ready; "" when it is."""
        try:
            answer = asyncio.wrap_future(self._ping.ask())
            await asyncio.wait_for(asyncio.shield(answer), _LONGEST_SECONDS)
        except StandingBy:
            return STANDING_BY
        except Exception:  # any error of the driver, or a timeout
            return DATABASE
        return DISK if self._is_full() else ""

    def _is_full(self) -> bool:
        try:
            disk = os.statvfs(self._home)
        except OSError:
            return True
        return disk.f_bavail * disk.f_frsize < self._least
