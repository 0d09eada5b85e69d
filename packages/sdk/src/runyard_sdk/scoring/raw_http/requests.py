"""Which kind of request a @rawhttp script gets: Flask's own where the environment has it, else one that is like it."""
import io
import sys
from contextlib import contextmanager
from urllib.parse import unquote_to_bytes

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.raw_http.flask_like import FlaskLikeRequest

_PLAIN_POST = {"method": "POST", "path": "/score", "query": "", "headers": []}


def request_class():
    """flask.Request or FlaskLikeRequest."""
    try:
        from flask import Request
    except ImportError:
        return FlaskLikeRequest
    return Request


def request_opener():
    """A function that makes a context of a frame's request; `with` it, the script's request is there."""
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
        # Inside it flask.request and flask.jsonify work, as they did where the original ran the script.
        with app.request_context(wsgi_environment(request)), _refusals_of_http():
            yield current._get_current_object()

    return opened


@contextmanager
def _refusals_of_http():
    """A body that the request cannot read as JSON or as a form is the client's fault, not the script's."""
    from werkzeug.exceptions import HTTPException
    try:
        yield
    except HTTPException as error:
        raise Refused(error.code or 500, error.description or str(error))


def wsgi_environment(request):
    """The request as PEP 3333 has it."""
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
