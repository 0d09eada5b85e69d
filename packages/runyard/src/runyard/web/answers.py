import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from httpcore import Response

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)")
_LENGTH = re.compile(r"[0-9]{1,18}")
"""A Content-Length with more digits counts as missing."""
_OWN_ENCODINGS = (".gz", ".tgz", ".z", ".svgz", ".bz2", ".br", ".zst", ".xz")


class ContentRange(NamedTuple):
    """Range of a partial response: [start, end), and the size of the whole file if known."""

    start: int
    end: int
    size: int | None


class Head(NamedTuple):
    """Status and header fields of a response; names in lower case."""

    status: int
    fields: dict[str, str]
    length: int | None
    """Content-Length."""
    is_chunked: bool

    @property
    def content_range(self) -> ContentRange | None:
        """Parsed Content-Range; None if missing or invalid."""
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
        """Value for If-Range; empty if there is none. A weak etag is not used: it may stand for other bytes."""
        tag = self.fields.get("etag", "")
        return tag if tag.startswith('"') else self.fields.get("last-modified", "")

    def version(self, size: int | None) -> str:
        """Etag of a file of that size, made from ETag or Last-Modified; empty if the server sends neither."""
        tag = self.fields.get("etag", "")
        if tag.startswith('"'):
            return tag
        modified = self.fields.get("last-modified", "")
        return f"modified {modified}, {size} bytes" if modified and size is not None else ""

    def foreign_encoding(self, path: str) -> str:
        """Content-Encoding that must be decoded, or empty. A 'x.gz' sent as gzip is the stored file itself."""
        encoding = self.fields.get("content-encoding", "").lower()
        is_plain = encoding in ("", "identity") or path.lower().endswith(_OWN_ENCODINGS)
        return "" if is_plain else encoding


def head_of(response: Response) -> Head:
    return made_head(response.status, response.headers)


def made_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Head from parsed headers. Fields with the same name are joined."""
    fields: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    is_chunked = "transfer-encoding" in fields
    length = fields.get("content-length", "")
    return Head(status, fields, int(length) if _LENGTH.fullmatch(length) and not is_chunked else None, is_chunked)
