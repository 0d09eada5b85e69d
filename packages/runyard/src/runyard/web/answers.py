import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple

from runyard.web.troubles import Broken

_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: |$)")
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,19})-([0-9]{1,19})|\*)/([0-9]{1,19}|\*)")
_OWN_ENCODINGS = (".gz", ".tgz", ".z", ".svgz", ".bz2", ".br", ".zst", ".xz")


class ContentRange(NamedTuple):
    """The part that an answer holds, from `start` up to and without `end`; the whole's size where it is told."""

    start: int
    end: int
    size: int | None


class Head(NamedTuple):
    """Status and fields of an answer; names are lower-case."""

    status: int
    is_http_11: bool
    fields: dict[str, str]
    length: int | None
    """Content-Length."""
    is_chunked: bool

    @property
    def keeps_alive(self) -> bool:
        wish = self.fields.get("connection", "").lower()
        return "close" not in wish if self.is_http_11 else "keep-alive" in wish

    @property
    def content_range(self) -> ContentRange | None:
        """None when there is none, or it makes no sense."""
        match = _CONTENT_RANGE.fullmatch(self.fields.get("content-range", ""))
        if not match:
            return None
        first, last, whole = match.groups("0")
        start, end = int(first), int(last) + (match[2] is not None)
        size = None if whole == "*" else int(whole)
        return ContentRange(start, end, size) if start <= end and (size is None or end <= size) else None

    @property
    def modified_at(self) -> datetime | None:
        try:
            return parsedate_to_datetime(self.fields["last-modified"]).astimezone(UTC)
        except (KeyError, ValueError, OverflowError):
            return None

    @property
    def validator(self) -> str:
        """What If-Range takes; empty when the server names none. A weak tag may stand for other bytes."""
        tag = self.fields.get("etag", "")
        return tag if tag.startswith('"') else self.fields.get("last-modified", "")

    def version(self, size: int | None) -> str:
        """An opaque etag of a file of that size; empty when the server names none."""
        tag = self.fields.get("etag", "")
        if tag.startswith('"'):
            return tag
        modified = self.fields.get("last-modified", "")
        return f"modified {modified}, {size} bytes" if modified and size is not None else ""

    def foreign_encoding(self, path: str) -> str:
        """The encoding of the body that is none of the file's own: a 'x.gz' sent as gzip is the file as it lies."""
        encoding = self.fields.get("content-encoding", "").lower()
        is_plain = encoding in ("", "identity") or path.lower().endswith(_OWN_ENCODINGS)
        return "" if is_plain else encoding


def parse_head(raw: bytes | bytearray) -> Head:
    """Broken when it is no answer of HTTP/1.x, or does not say clearly where its body ends."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    match = _STATUS_LINE.match(first)
    if not match:
        raise Broken("what the server sends is no answer of HTTP/1.1")
    fields: dict[str, str] = {}
    for line in lines:
        name, value = _field(line)
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return Head(int(match[2]), match[1] == "1", fields, _length(fields), _is_chunked(fields))


@lru_cache(maxsize=256)
def _field(line: str) -> tuple[str, str]:
    """Most lines of a server are the same in all of its answers."""
    name, colon, value = line.partition(":")
    if not colon:
        raise Broken("the server sends malformed headers")
    return name.lower(), value.strip()


def _length(fields: dict[str, str]) -> int | None:
    text = fields.get("content-length")
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 19:
        raise Broken(f"the server sends the Content-Length {text[:40]!r}")
    return int(text)


def _is_chunked(fields: dict[str, str]) -> bool:
    coding = fields.get("transfer-encoding", "").lower()
    if coding not in ("", "identity", "chunked"):
        raise Broken(f"the server sends the Transfer-Encoding {coding[:40]!r}, which was not asked for")
    return coding == "chunked"
