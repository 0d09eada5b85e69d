import time
from collections.abc import Iterable
from itertools import count

from runyard.errors import TooLarge, Unreachable
from runyard.model.data import StoredFile

LISTING_SECONDS = 120.0
MOST_FILES = 2_000_000
_LOOK_AT_THE_CLOCK_EVERY = 256


def bounded(files: Iterable[StoredFile], where: str, seconds: float = LISTING_SECONDS) -> list[StoredFile]:
    """All of a listing, which must end: Unreachable after so long, TooLarge above MOST_FILES."""
    deadline = time.monotonic() + seconds
    found: list[StoredFile] = []
    for file, number in zip(files, count(1)):
        found.append(file)
        if number % _LOOK_AT_THE_CLOCK_EVERY == 0:
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"Listing {where} took longer than {seconds:.0f} seconds.", hint="Name a folder of it."
                )
            if number > MOST_FILES:
                raise TooLarge(f"{where} holds more than {MOST_FILES:,} files.", hint="Name a folder of it.")
    return found
