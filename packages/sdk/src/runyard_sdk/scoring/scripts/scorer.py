"""The scorer of InferenceConfig: the user's entry script with init() and run()."""
import json
import sys
import time

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.failure import InitFailed
from runyard_sdk.scoring.raw_http.response import is_raw
from runyard_sdk.scoring.scripts.entry_module import call_init, can_be_called, import_entry_script
from runyard_sdk.scoring.scripts.query import query_of_get
from runyard_sdk.scoring.scripts.results import answer_of


def load(start):
    """Import the script and call its init()."""
    began = time.perf_counter()
    module = import_entry_script(start)
    seconds = time.perf_counter() - began
    scorer = _scorer_of(module.run, start.entry_script)
    call_init(module, start.entry_script)
    scorer.import_seconds = seconds
    return scorer


class PlainScript(object):
    """run(data) with the body as text; of a GET, the query as the text of a JSON object."""

    methods = ("GET", "POST")

    def __init__(self, run):
        self._run = run

    def score(self, requests):
        request, = requests
        query = query_of_get(request)
        if query is not None:
            data = json.dumps(query)
        else:
            try:
                data = request.body.decode("utf-8")
            except UnicodeDecodeError as error:
                raise Refused(400, "The body is not UTF-8 text: %s." % error)
        return [answer_of(self._run(data))]


class RawScript(object):
    """run(request) under @rawhttp: the whole HTTP request."""

    wants_heads = True
    methods = ("GET", "POST", "OPTIONS")

    def __init__(self, run):
        from runyard_sdk.scoring.raw_http.requests import request_opener
        self._run, self._open = run, request_opener()

    def score(self, requests):
        with self._open(requests[0]) as request:
            return [answer_of(self._run(request))]


def _scorer_of(run, entry_script):
    if is_raw(run):
        return RawScript(run)
    if "inference_schema" in sys.modules:
        from runyard_sdk.scoring.scripts import schema_scorer
        if schema_scorer.is_decorated(run):
            return schema_scorer.SchemaScript(run)
    if not can_be_called(run, ""):
        raise InitFailed("run() of %s is called with one argument, the request's body as text, which it does not take."
                         % entry_script, "Write run(data), or name its parameters with @input_schema.")
    return PlainScript(run)
