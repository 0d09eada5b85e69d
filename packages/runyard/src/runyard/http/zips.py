import io
import zipfile
from collections.abc import Iterator

from runyard.services.content import StoredFolder

_EPOCH = (1980, 1, 1, 0, 0, 0)
_REGULAR = 0o100000


def zipped(folder: StoredFolder) -> Iterator[bytes]:
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
