from runyard.core.errors import DataFailed, InvalidArgument
from runyard.core.records.data import StoredFile
from runyard.data.http.addresses import Address
from runyard.data.http.client import HttpClient
from runyard.data.http.responses import ResponseHead, source_changed, status_error, unknown_encoding
from runyard.data.http.retries import TransientError

MAX_SKIPPED_BYTES = 16 * 1024 * 1024
"""Most bytes to skip if a server ignores Range and sends the whole file."""


def stat_once(client: HttpClient, path: str, address: Address) -> StoredFile:
    """Get size, etag and support of ranges. Does not retry. Where HEAD does not tell them, requests the first byte."""
    with client.ask("HEAD", address) as answer:
        head = answer.head
        if head.status in (404, 410):
            raise status_error(address, head)
        is_ranged = head.fields.get("accept-ranges", "").lower() == "bytes"
        if head.status == 200 and is_ranged and head.length and not head.foreign_encoding(address.path):
            return _seen(path, head, head.length, is_ranged=True)
    with client.ask("GET", address, [("Range", "bytes=0-0")]) as answer:
        head, part = answer.head, answer.head.content_range
        if head.status in (200, 206) and head.foreign_encoding(address.path):
            return _seen(path, head, None, is_ranged=False)
        if head.status == 200:
            return _seen(path, head, head.length, is_ranged=False)
        if head.status == 206:
            size = part.size if part and (part.start, part.end) == (0, 1) else None
            return _seen(path, head, size, is_ranged=size is not None)
        if head.status == 416 and part and part.size == 0:
            return _seen(path, head, 0, is_ranged=False)
        raise status_error(address, head)


def read_once(client: HttpClient, address: Address, start: int, length: int, etag: str) -> memoryview:
    """Read exactly that range, of the version `etag` if given. Does not retry."""
    with client.ask("GET", address, [("Range", f"bytes={start}-{start + length - 1}")]) as answer:
        head = answer.head
        if head.status == 416:
            size = head.content_range.size if head.content_range else None
            _check_version(client, address, etag)
            raise _past_end(address, start, length, size)
        skipped, size = check_range(head, address, start, length)
        if etag and etag != head.version(size):
            raise source_changed(address)
        if size is not None and start + length > size:
            raise _past_end(address, start, length, size)
        view = memoryview(bytearray(skipped + length))
        if answer.body.fill(view) < len(view):
            raise _past_end(address, start, length, size)
        return view[skipped:]


def check_range(head: ResponseHead, address: Address, start: int, length: int) -> tuple[int, int | None]:
    """Check that a response holds the requested range. Returns how many bytes to skip, and the size of the file."""
    if head.status not in (200, 206):
        raise status_error(address, head)
    if encoding := head.foreign_encoding(address.path):
        raise unknown_encoding(address, encoding)
    if head.status == 200:
        if start > MAX_SKIPPED_BYTES:
            raise DataFailed(
                f"{address.shown} cannot be read in parts: the server sends it whole.",
                hint="Download the dataset instead of mounting it.",
            )
        return start, head.length
    part = head.content_range
    if not part or part.start != start or part.end > start + length:
        sent = head.fields.get("content-range", "")[:60]
        raise DataFailed(
            f"{address.shown} could not be read: asked for {length} bytes from {start} on, the server sends {sent!r}.",
            hint="Download the dataset instead of mounting it.",
        )
    if head.length is not None and head.length != part.end - part.start:
        raise TransientError("the server sends a length other than that of the part it names")
    if part.end < start + length and part.end != part.size:
        raise TransientError(f"the server sends {part.end - part.start} of {length} bytes")
    return 0, part.size


def _check_version(client: HttpClient, address: Address, etag: str) -> None:
    if etag and stat_once(client, address.shown, address).etag != etag:
        raise source_changed(address)


def _seen(path: str, head: ResponseHead, size: int | None, *, is_ranged: bool) -> StoredFile:
    return StoredFile(path, size, head.version(size), head.modified_at, is_ranged)


def _past_end(address: Address, start: int, length: int, size: int | None) -> InvalidArgument:
    whole = "is shorter" if size is None else f"has {size}"
    return InvalidArgument(f"{address.shown} has no bytes from {start} to {start + length}: it {whole}.")
