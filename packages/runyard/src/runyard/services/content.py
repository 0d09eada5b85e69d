from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Content:
    """A file ready to be sent: by its path where it lies on this machine and will not change, else in pieces."""

    size: int
    path: Path | None = None
    pieces: Callable[[], Iterator[bytes]] | None = None
    part: Callable[[int, int], Iterator[bytes | memoryview]] | None = None
    """Pieces of so many bytes from a start, where any part of the file can be had."""
    etag: str = ""
