"""The request of a @rawhttp script in an environment without Flask: the part of Flask's that scripts use."""
import io
import json
from urllib.parse import parse_qsl, unquote

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.raw_http.headers import Headers
from runyard_sdk.scoring.raw_http.multipart import parse_multipart


class MultiDict(dict):
    """The first value of each name; `getlist` gives all."""

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
        """With a type: the default too where the value is not of it."""
        if name not in self:
            return default
        try:
            return self[name] if type is None else type(self[name])
        except ValueError:
            return default


class FlaskLikeRequest(object):
    """One HTTP request, read as a Flask request is."""

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
        """The body as JSON; None where its type is another, unless forced. A body that is not JSON answers 400."""
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
