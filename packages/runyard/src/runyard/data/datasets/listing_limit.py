import time
from collections.abc import Iterable, Iterator

from runyard.core.errors import TooLarge, Unreachable
from runyard.core.records.data import StoredFile

LISTING_SECONDS = 120.0
MOST_FILES = 2_000_000
_CLOCK_INTERVAL_FILES = 256


def bounded_listing(files: Iterable[StoredFile], where: str, seconds: float = LISTING_SECONDS) -> Iterator[StoredFile]:
    """Yield the files of a listing. Raises Unreachable after `seconds`, TooLarge above MOST_FILES."""
    deadline = time.monotonic() + seconds
    for number, file in enumerate(files, 1):
        yield file
        if number % _CLOCK_INTERVAL_FILES == 0:
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"Listing {where} took longer than {seconds:.0f} seconds.", hint="Name a folder of it."
                )
            if number > MOST_FILES:
                raise TooLarge(f"{where} holds more than {MOST_FILES:,} files.", hint="Name a folder of it.")
