"""Request object of a @rawhttp script: Flask's if it is installed, else a similar one."""

import io
import json
import sys
from contextlib import contextmanager
from email.message import Message
from email.parser import BytesHeaderParser
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.raw_http.response import Headers

_PLAIN_POST = {"method": "POST", "path": "/score", "query": "", "headers": []}
MOST_PARTS = 1000


def request_class():
    """flask.Request or FlaskLikeRequest."""
    try:
        from flask import Request
    except ImportError:
        return FlaskLikeRequest
    return Request


def request_opener():
    """Function that makes a context manager of a frame's request, giving the script's request."""
    return _open_flask_like if request_class() is FlaskLikeRequest else _flask_opener()


@contextmanager
def _open_flask_like(request):
    yield FlaskLikeRequest(request.head or _PLAIN_POST, request.body)


def _flask_opener():
    from flask import Flask
    from flask import request as current
    app = Flask("runyard_scoring")

    @contextmanager
    def opened(request):
        # flask.request and flask.jsonify work inside it, as with the original server.
        with app.request_context(wsgi_environment(request)), _refusals_of_http():
            yield current._get_current_object()

    return opened


@contextmanager
def _refusals_of_http():
    """Turn errors of reading the body as JSON or form into a refusal: the client's fault, not the script's."""
    from werkzeug.exceptions import HTTPException
    try:
        yield
    except HTTPException as error:
        raise Refused(error.code or 500, error.description or str(error))


def wsgi_environment(request):
    """WSGI environment (PEP 3333) of the request."""
    head = request.head or _PLAIN_POST
    environment = {
        "REQUEST_METHOD": head["method"], "SCRIPT_NAME": "", "QUERY_STRING": head["query"],
        "PATH_INFO": unquote_to_bytes(head["path"]).decode("latin-1"), "CONTENT_LENGTH": str(len(request.body)),
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr, "wsgi.multithread": False, "wsgi.multiprocess": True, "wsgi.run_once": False,
    }
    for name, value in head["headers"]:
        key = name.upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environment[key] = value
        elif key not in ("CONTENT_LENGTH", "TRANSFER_ENCODING"):
            key = "HTTP_" + key
            environment[key] = environment[key] + "," + value if key in environment else value
    return environment


class MultiDict(dict):
    """First value of each name; `getlist` returns all."""

    def __init__(self, pairs=()):
        super(MultiDict, self).__init__()
        self._all = {}
        for name, value in pairs:
            self.setdefault(name, value)
            self._all.setdefault(name, []).append(value)

    def getlist(self, name):
        return list(self._all.get(name, ()))

    def to_dict(self, flat=True):
        return dict(self) if flat else {name: list(values) for name, values in self._all.items()}

    def get(self, name, default=None, type=None):
        """Value or default; with a type, the default also if conversion fails."""
        if name not in self:
            return default
        try:
            return self[name] if type is None else type(self[name])
        except ValueError:
            return default


class FlaskLikeRequest(object):
    """An HTTP request with the part of Flask's interface that scripts use."""

    def __init__(self, head, body):
        self.method = head["method"]
        self.path = unquote(head["path"])
        self.query_string = head["query"].encode("latin-1", "replace")
        self.headers = Headers([[name, value] for name, value in head["headers"]])
        self.data = body
        self.args = MultiDict(parse_qsl(head["query"], keep_blank_values=True))
        self._form = None

    def __repr__(self):
        return "<Request %r [%s]>" % (self.url, self.method)

    @property
    def full_path(self):
        return "%s?%s" % (self.path, self.query_string.decode("latin-1"))

    @property
    def host(self):
        return self.headers.get("Host", "localhost")

    @property
    def scheme(self):
        return self.headers.get("X-Forwarded-Proto", "http")

    @property
    def host_url(self):
        return "%s://%s/" % (self.scheme, self.host)

    @property
    def base_url(self):
        return self.host_url + self.path.lstrip("/")

    @property
    def url(self):
        return self.base_url + ("?" + self.query_string.decode("latin-1") if self.query_string else "")

    @property
    def content_type(self):
        return self.headers.get("Content-Type", "")

    @property
    def mimetype(self):
        return self.content_type.split(";")[0].strip().lower()

    @property
    def content_length(self):
        return len(self.data)

    @property
    def stream(self):
        return io.BytesIO(self.data)

    @property
    def cookies(self):
        from http.cookies import SimpleCookie
        return {name: morsel.value for name, morsel in SimpleCookie(self.headers.get("Cookie", "")).items()}

    def get_data(self, cache=True, as_text=False, parse_form_data=False):
        return self.data.decode("utf-8", "replace") if as_text else self.data

    @property
    def is_json(self):
        return self.mimetype == "application/json" or (
            self.mimetype.startswith("application/") and self.mimetype.endswith("+json"))

    @property
    def json(self):
        return self.get_json()

    def get_json(self, force=False, silent=False, cache=True):
        """Body as JSON; None for another content type, unless forced. Invalid JSON answers 400."""
        if not (force or self.is_json):
            return None
        try:
            return json.loads(self.data.decode("utf-8"))
        except ValueError as error:
            if silent:
                return None
            raise Refused(400, "The body is not JSON: %s." % error)

    @property
    def form(self):
        return self._parsed_form()[0]

    @property
    def files(self):
        return self._parsed_form()[1]

    @property
    def values(self):
        return MultiDict(list(self.args.items()) + list(self.form.items()))

    def _parsed_form(self):
        if self._form is None:
            fields, files = (), ()
            if self.mimetype == "multipart/form-data":
                fields, files = parse_multipart(self.data, self.content_type)
            elif self.mimetype == "application/x-www-form-urlencoded":
                fields = parse_qsl(self.data.decode("utf-8", "replace"), keep_blank_values=True)
            self._form = MultiDict(fields), MultiDict(files)
        return self._form


class UploadedFile(io.BytesIO):
    """A file of a form; `name` is the field, `filename` the client's name."""

    def __init__(self, content, name, filename, content_type):
        super(UploadedFile, self).__init__(content)
        self.name, self.filename, self.content_type = name, filename, content_type

    @property
    def stream(self):
        return self

    @property
    def mimetype(self):
        return self.content_type.split(";")[0].strip()

    def save(self, target):
        """Write it to a path or an open file."""
        if hasattr(target, "write"):
            target.write(self.getvalue())
        else:
            with open(target, "wb") as sink:
                sink.write(self.getvalue())


def parse_multipart(body, content_type):
    """([(field, text)], [(field, UploadedFile)]) of a multipart/form-data body. Raises Refused (400) without
    boundaries."""
    boundary = _header_value(content_type).get_param("boundary")
    if not boundary:
        raise Refused(400, "The Content-Type %r names no boundary." % content_type)
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"), MOST_PARTS + 1)
    if len(pieces) > MOST_PARTS + 1:
        raise Refused(413, "The form has more than %d parts." % MOST_PARTS)
    fields, files = [], []
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            break
        head, found, content = piece.partition(b"\r\n\r\n")
        if not found:
            raise Refused(400, "A part of the form has no end to its headers.")
        _place(BytesHeaderParser().parsebytes(head.lstrip(b"\r\n")), content, fields, files)
    return fields, files


def _place(part, content, fields, files):
    name = part.get_param("name", "", header="content-disposition")
    filename = part.get_filename()
    if filename is None:
        charset = part.get_content_charset() or "utf-8"
        fields.append((name, content.decode(charset, "replace")))
    else:
        files.append((name, UploadedFile(content, name, filename, part.get("Content-Type", ""))))


def _header_value(content_type):
    header = Message()
    header["Content-Type"] = content_type
    return header
