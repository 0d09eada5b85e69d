import json
import os

from runyard_sdk import blobs
from runyard_sdk.errors import InvalidArgument, StorageFull
from runyard_sdk.transport import Transport


def quoted(part):
    """One part of an address, percent-encoded; a slash in it is encoded too."""
    from urllib.parse import quote

    return quote(str(part), safe="")


def quoted_path(path):
    """A path inside a run or datastore: its slashes stay."""
    from urllib.parse import quote

    return quote(str(path), safe="/")


_TRIES_AGAINST_CUTS = 3


class Client:
    """The service's routes as calls. Paths lie below `/api/v1` and begin with a slash; JSON in and out."""

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
        """A PUT that is refused when it comes twice, so it is not repeated once it may have arrived."""
        return self._call("PUT", path, body, query, repeatable=False)

    def patch(self, path, body=None, **query):
        return self._call("PATCH", path, body, query)

    def delete(self, path, body=None, **query):
        return self._call("DELETE", path, body, query)

    def post_again(self, path, body=None, **query):
        """A POST that the service recognises when it comes twice, so that a broken connection is no failure."""
        return self._call("POST", path, body, query, repeatable=True)

    def post_bytes(self, path, content, **query):
        """Send raw bytes that the service places by their offset: sending twice is harmless."""
        return _decoded(self.transport.request("POST", _address(path, query), content, repeatable=True))

    def read(self, path, **query):
        """The answer's bytes."""
        return self.transport.request("GET", _address(path, query))

    def open(self, path, **query):
        """The answer as a file to read as it comes."""
        return self.transport.open(_address(path, query))

    def download(self, path, target, size=None, version="", told=None, headers=None, **query):
        """Write an answer to the file `target`, whole or not at all; see runyard_sdk.fetching."""
        from runyard_sdk.fetching import fetch

        try:
            fetch(self.transport, _address(path, query), target, size, version, told, headers)
        except StorageFull as error:
            raise self.transport.translate(error)

    def upload(self, path, source, told=None, **query):
        """PUT the bytes of the file `source`; `told` is called with the number of bytes that went, as they go.

        Of a file that grows meanwhile, those that it had at first. Raises InvalidArgument for one that is cut again
        and again.
        """
        for _ in range(_TRIES_AGAINST_CUTS):
            with open(source, "rb") as content:
                try:
                    return self.upload_open(path, content, os.fstat(content.fileno()).st_size, told, **query)
                except blobs.BodyTooShort:
                    continue
        raise self.transport.translate(InvalidArgument(
            "The file {!r} became shorter while it was sent.".format(source),
            "Send it again once nothing writes to it."))

    def upload_open(self, path, content, size, told=None, **query):
        """PUT the next `size` bytes of an open file; blobs.BodyTooShort where it has fewer."""
        body = blobs.Exactly(content, size, told)
        try:
            return _decoded(self.transport.request("PUT", _address(path, query), body, {"Content-Length": str(size)}))
        except blobs.BodyTooShort:
            body.seek(0)
            raise

    def send_files(self, paths):
        """Make the contents of local files known to the service; `[[sha256, size], ...]` in the order given."""
        return blobs.send_files(self, paths)

    @property
    def shares_files(self):
        """Whether the service sees this machine's files, so that contents can be handed over by path."""
        if self._shares_files is None:
            self._shares_files = bool(self.get("/health").get("shares_files"))
        return self._shares_files

    def _call(self, method, path, body, query, repeatable=None):
        content = None if body is None else _encoded(body)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        return _decoded(self.transport.request(method, _address(path, query), content, headers, repeatable))


def _address(path, query):
    """A list gives its key once per item; None, False and an empty list give nothing."""
    given = [(key, _as_text(item)) for key, value in sorted(query.items())
             for item in (value if isinstance(value, list) else [value]) if item is not None and item is not False]
    if not given:
        return path
    from urllib.parse import urlencode

    return path + "?" + urlencode(given)


def _as_text(value):
    return "1" if value is True else str(value)


def _encoded(body):
    """Its JSON as UTF-8; InvalidArgument for a text that cannot be that, such as a file name of another encoding."""
    try:
        return json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 40):error.end + 10]
        raise InvalidArgument("A text holds half of a character, which cannot be sent: ...%s..." % ascii(near)[1:-1],
                              "Rename what it names, in UTF-8.")


def _decoded(content):
    return json.loads(content.decode("utf-8")) if content else None
