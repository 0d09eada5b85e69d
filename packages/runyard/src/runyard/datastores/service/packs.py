from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runyard.blobs.sources import opened_source
from runyard.client import ServiceAway, ServiceClient

SMALL_BYTES = 1 << 20
_PACK_BYTES, _PACK_FILES = 8 << 20, 500
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Pack:
    """Many small files in the body of one request: a request for each would cost more than its bytes."""

    content: bytes
    size: int
    """Bytes of the files, without the headers between them."""


def packs_of(items: Sequence[tuple[str, Path]]) -> Iterator[Pack]:
    """Read the files into packs."""
    parts: list[bytes] = []
    size = files = 0
    for path, source in items:
        content = _content(source)
        if files and (size + len(content) > _PACK_BYTES or files >= _PACK_FILES):
            yield Pack(b"".join(parts), size)
            parts, size, files = [], 0, 0
        parts += [f"{quote(path, safe='/')} {len(content)}\n".encode(), content]
        size, files = size + len(content), files + 1
    if files:
        yield Pack(b"".join(parts), size)


def unpacked(client: ServiceClient, address: str, body: dict[str, Any]) -> Iterator[tuple[int, memoryview]]:
    """Yield (number, content) for each file of the response as it arrives. Does not retry."""
    with client.open(address, "POST", dumps(body).encode()) as answer:
        waiting = bytearray()
        while piece := answer.read(_PIECE_BYTES):
            waiting += piece
            begin = 0
            while (end := waiting.find(b"\n", begin)) >= 0:
                number, size = _head(waiting[begin:end])
                if len(waiting) < end + 1 + size:
                    break
                yield number, memoryview(bytes(waiting[end + 1 : end + 1 + size]))
                begin = end + 1 + size
            del waiting[:begin]


def _head(line: bytearray) -> tuple[int, int]:
    number, _, size = line.partition(b" ")
    try:
        return int(number), int(size)
    except ValueError as problem:
        raise ServiceAway(f"the service answered what is no pack of files: {bytes(line[:300])!r}") from problem


def _content(source: Path) -> bytes:
    with (
        opened_source(source.resolve() if source.is_symlink() else source) as (opened, _),
        open(opened, "rb", closefd=False) as file,
    ):
        return file.read()
