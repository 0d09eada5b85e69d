"""@rawhttp and AMLResponse: scripts that read the HTTP request and build the response."""

import json
from wsgiref.headers import Headers as _WsgiHeaders

from runyard_sdk.scoring.answers import Unanswerable

_MARK = "runyard_raw_http"


def rawhttp(function):
    """Decorator of run(request): pass the HTTP request instead of the body text."""
    setattr(function, _MARK, True)
    return function


def is_raw(function):
    return getattr(function, _MARK, False) is True


class AMLResponse(object):
    """An HTTP response. A message that is neither text nor bytes, or any with json_str, is sent as JSON."""

    def __init__(self, message, status_code, response_headers={}, json_str=False):
        as_json = json_str or not (message is None or isinstance(message, (str, bytes, bytearray)))
        self.status_code = status_code
        self.headers = Headers([["Content-Type", "application/json" if as_json else "text/html; charset=utf-8"]])
        self.headers.update(response_headers or {})
        self.set_data(json.dumps(message) if as_json else message)

    def set_data(self, value):
        self.data = value.encode("utf-8") if isinstance(value, str) else bytes(value or b"")

    def get_data(self, as_text=False):
        return self.data.decode("utf-8") if as_text else self.data

    @property
    def json(self):
        return json.loads(self.get_data(as_text=True))

    @property
    def content_type(self):
        return self.headers.get("Content-Type")

    @content_type.setter
    def content_type(self, value):
        self.headers["Content-Type"] = value

    mimetype = content_type


def is_response(value):
    """Whether it is an AMLResponse, or a response of Flask or werkzeug."""
    return hasattr(value, "status_code") and hasattr(value, "get_data")


def response_answer(response):
    """Answer of a response. Raises Unanswerable for invalid headers."""
    headers = [[str(name), str(value)] for name, value in response.headers.items() if name.lower() != "content-length"]
    for name, value in headers:
        if not name or any(character in name + value for character in "\r\n\0"):
            raise Unanswerable("The response has a header that cannot be sent: %r: %r." % (name, value))
    return response.status_code, headers, bytes(response.get_data())


class Headers(_WsgiHeaders):
    """HTTP headers, case-insensitive; a name may occur several times."""

    def __getitem__(self, name):
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self):
        return iter(self.items())

    def add(self, name, value):
        """Add a header, next to those of the same name."""
        self.add_header(name, str(value))

    def getlist(self, name):
        return self.get_all(name)

    def update(self, others):
        for name, value in dict(others).items():
            self[name] = str(value)

    def to_wsgi_list(self):
        return list(self.items())
