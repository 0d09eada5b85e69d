import json
import os

from runyard_sdk import blobs
from runyard_sdk.errors import InvalidArgument, StorageFull
from runyard_sdk.transport import Transport


def quoted(part):
    """Percent-encode one path segment, slashes included."""
    from urllib.parse import quote

    return quote(str(part), safe="")


def quoted_path(path):
    """Percent-encode a path inside a run or datastore; slashes stay."""
    from urllib.parse import quote

    return quote(str(path), safe="/")


_TRIES_AGAINST_CUTS = 3


class Client:
    """Routes of the service as methods. Paths are below `/api/v1` and begin with a slash; JSON in and out."""

    def __init__(self, transport=None):
        self.transport = transport or Transport()
        self._shares_files = None

    def get(self, path, body=None, **query):
        return self._call("GET", path, body, query)

    def post(self, path, body=None, **query):
        return self._call("POST", path, body, query)

    def put(self, path, body=None, **query):
        return self._call("PUT", path, body, query)

    def put_once(self, path, body=None, **query):
        """PUT that is refused when repeated, so it is not retried once it may have arrived."""
        return self._call("PUT", path, body, query, repeatable=False)

    def patch(self, path, body=None, **query):
        return self._call("PATCH", path, body, query)

    def delete(self, path, body=None, **query):
        return self._call("DELETE", path, body, query)

    def post_again(self, path, body=None, **query):
        """POST that the service deduplicates, so it is retried after a broken connection."""
        return self._call("POST", path, body, query, repeatable=True)

    def post_bytes(self, path, content, **query):
        """POST raw bytes that the service places by offset: repeating is harmless."""
        return _decoded(self.transport.request("POST", _address(path, query), content, repeatable=True))

    def read(self, path, **query):
        """Return the bytes of the response."""
        return self.transport.request("GET", _address(path, query))

    def open(self, path, **query):
        """Return the response as a file object."""
        return self.transport.open(_address(path, query))

    def download(self, path, target, size=None, version="", on_bytes=None, headers=None, **query):
        """Download to the file `target`, completely or not at all; see runyard_sdk.downloads."""
        from runyard_sdk.downloads import fetch

        try:
            fetch(self.transport, _address(path, query), target, size, version, on_bytes, headers)
        except StorageFull as error:
            raise self.transport.translate(error)

    def upload(self, path, source, on_bytes=None, **query):
        """PUT the bytes of the file `source`; `on_bytes` is called with the number of bytes sent, as they go.

        If the file grows, sends its first length. Raises InvalidArgument for one that is repeatedly truncated.
        """
        for _ in range(_TRIES_AGAINST_CUTS):
            with open(source, "rb") as content:
                try:
                    return self.upload_open(path, content, os.fstat(content.fileno()).st_size, on_bytes, **query)
                except blobs.BodyTooShort:
                    continue
        raise self.transport.translate(InvalidArgument(
            "The file {!r} became shorter while it was sent.".format(source),
            "Send it again once nothing writes to it."))

    def upload_open(self, path, content, size, on_bytes=None, **query):
        """PUT the next `size` bytes of an open file. Raises blobs.BodyTooShort if it has fewer."""
        body = blobs.Exactly(content, size, on_bytes)
        try:
            return _decoded(self.transport.request("PUT", _address(path, query), body, {"Content-Length": str(size)}))
        except blobs.BodyTooShort:
            body.seek(0)
            raise

    def send_files(self, paths):
        """Upload the contents of local files; return `[[sha256, size], ...]` in the given order."""
        return blobs.send_files(self, paths)

    @property
    def shares_files(self):
        """Whether the service sees this machine's files, so that contents can be passed by path."""
        if self._shares_files is None:
            self._shares_files = bool(self.get("/health").get("shares_files"))
        return self._shares_files

    def _call(self, method, path, body, query, repeatable=None):
        content = None if body is None else _encoded(body)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        return _decoded(self.transport.request(method, _address(path, query), content, headers, repeatable))


def _address(path, query):
    """Path with query: a list repeats its key; None, False and an empty list are left out."""
    given = [(key, _as_text(item)) for key, value in sorted(query.items())
             for item in (value if isinstance(value, list) else [value]) if item is not None and item is not False]
    if not given:
        return path
    from urllib.parse import urlencode

    return path + "?" + urlencode(given)


def _as_text(value):
    return "1" if value is True else str(value)


def _encoded(body):
    """JSON as UTF-8. Raises InvalidArgument for text that cannot be encoded, such as a file name in another encoding.
    """
    try:
        return json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 40):error.end + 10]
        raise InvalidArgument("A text holds half of a character, which cannot be sent: ...%s..." % ascii(near)[1:-1],
                              "Rename what it names, in UTF-8.")


def _decoded(content):
    return json.loads(content.decode("utf-8")) if content else None
