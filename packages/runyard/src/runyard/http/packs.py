from collections.abc import Iterator

from runyard.errors import InvalidArgument, TooLarge

LARGEST_PACKED_BLOB = 64 * 1024 * 1024
LONGEST_HEAD = 128


def unpacked(pieces: Iterator[bytes]) -> Iterator[tuple[str, bytes]]:
    """(sha256, bytes) of each blob in a pack: `sha256 SP size LF`, then its bytes, one after another."""
    waiting = _Waiting(pieces)
    while (head := waiting.line()) is not None:
        sha256, _, size_text = head.decode("ascii", "replace").partition(" ")
        if not (size_text.isascii() and size_text.isdigit()):
            raise InvalidArgument(f"A blob in a pack begins with its sha256 and size, got {head[:80]!r}.")
        size = int(size_text)
        if size > LARGEST_PACKED_BLOB:
            raise TooLarge(f"A blob of {size} bytes is too large for a pack.", hint="Send it by PUT /blobs/SHA256.")
        yield sha256, waiting.take(size)


class _Waiting:
    """Bytes that have come in and were not taken yet."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._bytes = pieces, bytearray()

    def line(self) -> bytes | None:
        """Up to the next LF, without it; None at the end."""
        while b"\n" not in self._bytes[:LONGEST_HEAD] and len(self._bytes) < LONGEST_HEAD and self._more():
            pass
        end = self._bytes[:LONGEST_HEAD].find(b"\n")
        if end < 0 and self._bytes:
            raise InvalidArgument("The pack holds something that is not the head of a blob.")
        return self.take(end + 1)[:-1] if end >= 0 else None

    def take(self, size: int) -> bytes:
        while len(self._bytes) < size:
            if not self._more():
                raise InvalidArgument("The pack ends in the middle of a blob.")
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        return taken

    def _more(self) -> bool:
        piece = next(self._pieces, b"")
        self._bytes += piece
        return bool(piece)
