import io
import re
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote

from runyard.core.errors import InvalidArgument, TooLarge
from runyard.storage.blobs.content import StoredFolder

MAX_PACKED_BLOB = 64 * 1024 * 1024
MAX_HEAD = 128
MAX_PATH_HEAD = 3 * 4096 + 32
_SIZE = re.compile("[0-9]{1,18}")


def iterate_pack(pieces: Iterator[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield (sha256, bytes) of each blob in a pack: `sha256 SP size LF`, then its bytes. Raises InvalidArgument."""
    return _iterate(_Buffer(pieces, MAX_HEAD), "Send it by PUT /blobs/SHA256.")


def iterate_file_pack(pieces: Iterator[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield (path, bytes) of each file in a pack whose heads hold percent-encoded paths."""
    for path, content in _iterate(_Buffer(pieces, MAX_PATH_HEAD), "Send it alone."):
        yield unquote(path, errors="surrogateescape"), content  # a path that is no UTF-8 is refused later, by name


def pack_entry(number: int, content: bytes | memoryview) -> bytes:
    """One file of a packed response: `NUMBER SP size LF`, then its bytes."""
    return b"%d %d\n" % (number, len(content)) + bytes(content)


def _iterate(waiting: "_Buffer", hint: str) -> Iterator[tuple[str, bytes]]:
    while (head := waiting.line()) is not None:
        name, _, size_text = head.decode("ascii", "replace").partition(" ")
        if not _SIZE.fullmatch(size_text):
            raise InvalidArgument(f"What is in a pack begins with its name and size, got {head[:80]!r}.")
        size = int(size_text)
        if size > MAX_PACKED_BLOB:
            raise TooLarge(f"{size} bytes are too much for one of a pack.", hint=hint)
        yield name, waiting.take(size)


class _Buffer:
    """Received bytes that are not consumed yet."""

    def __init__(self, pieces: Iterator[bytes], longest_head: int) -> None:
        self._pieces, self._longest, self._bytes = pieces, longest_head, bytearray()

    def line(self) -> bytes | None:
        """The next line without its LF; None at the end."""
        while self._bytes.find(b"\n", 0, self._longest) < 0 and len(self._bytes) < self._longest and self._more():
            pass
        end = self._bytes.find(b"\n", 0, self._longest)
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


_EPOCH = (1980, 1, 1, 0, 0, 0)
_REGULAR = 0o100000


def stream_zip(folder: StoredFolder) -> Iterator[bytes]:
    """Yield a zip of the files, one piece at a time; nothing is written to disk."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for entry in folder.entries:
            info = zipfile.ZipInfo(entry.path, _EPOCH)
            info.external_attr = (_REGULAR | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as member:
                for piece in folder.read(entry):
                    member.write(piece)
                    yield sink.taken()
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Buffer between zipfile and the response. It cannot seek, so zipfile writes sizes after the data."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._bytes += data
        return len(data)

    def taken(self) -> bytes:
        taken = bytes(self._bytes)
        self._bytes.clear()
        return taken
