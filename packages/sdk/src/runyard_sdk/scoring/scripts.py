"""Scorer of InferenceConfig: the user's entry script with init() and run()."""

import importlib.machinery
import importlib.util
import inspect
import json
import os
import sys
import time

from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.raw_http.response import is_raw, is_response, response_answer

_UNKNOWN = {"type": "object"}
_NOTHING = answer_json({})


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
    """run(data) with the body as text; for a GET the query as the text of a JSON object."""

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
    """run(request) under @rawhttp, with the whole HTTP request."""

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
        if is_decorated(run):
            return SchemaScript(run)
    if not can_be_called(run, ""):
        raise InitFailed("run() of %s is called with one argument, the request's body as text, which it does not take."
                         % entry_script, "Write run(data), or name its parameters with @input_schema.")
    return PlainScript(run)


def is_decorated(run):
    from inference_schema.schema_util import is_schema_decorated
    return is_schema_decorated(run)


class SchemaScript(object):
    """run(**parameters) decorated by inference_schema: the body is a JSON object with the parameters."""

    methods = ("GET", "POST")

    def __init__(self, run):
        self._run = run
        self._inner = inspect.unwrap(run)
        self._required, self._known = _parameters(self._inner)
        self.schema = schema_facts(run, self._required)

    def score(self, requests):
        values = self._values(requests[0])
        try:
            result = self._run(**values)
        except Exception as error:
            if _was_entered(self._inner, error):
                raise
            raise Refused(400, "The body does not fit the schema of run(): %s" % (str(error) or one_line(error)))
        return [answer_of(result)]

    def _values(self, request):
        values = query_of_get(request)
        if values is None:
            values = _json_object(request.body, self._required)
        absent = [name for name in self._required if name not in values]
        if absent:
            raise Refused(400, "The body lacks %s; its keys must be the parameters of run()." % _named(absent))
        extra = [name for name in values if name not in self._known] if self._known is not None else []
        if extra:
            raise Refused(400, "The body has %s, which is no parameter of run(); known: %s." % (
                _named(extra[:5]), _named(self._known) or "none"))
        return values


def schema_facts(run, required):
    """Schemas and samples from inference_schema's registry, for an OpenAPI document."""
    from inference_schema.schema_util import get_input_schema, get_output_schema
    facts = {}
    for name, found in (("input", get_input_schema(run)), ("output", get_output_schema(run))):
        found = dict(found)
        if "example" in found:
            facts["sample_" + name] = found.pop("example")
        if found != _UNKNOWN:
            facts[name] = found
    if "input" in facts:
        described = facts["input"].get("properties", {})
        facts["sample_input"] = {key: value for key, value in facts["sample_input"].items() if described.get(key)}
        facts["input"]["required"] = list(required)
    return json.loads(json.dumps(facts, default=str))


def _json_object(body, parameters):
    try:
        values = json.loads(body.decode("utf-8"))
    except ValueError as error:
        raise Refused(400, "The body is not JSON: %s." % error)
    if not isinstance(values, dict):
        raise Refused(400, "The body must be a JSON object with the keys %s, but is %s." % (
            _named(parameters), type(values).__name__))
    return values


def _parameters(function):
    """(parameters without a default, all parameters or None where any name is accepted)."""
    required, known = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            return required, None
        if parameter.kind is not parameter.VAR_POSITIONAL:
            known.append(parameter.name)
            if parameter.default is parameter.empty:
                required.append(parameter.name)
    return required, known


def _was_entered(function, error):
    """Whether the user's code was running; otherwise the decorators refused the values."""
    code, frames = getattr(function, "__code__", None), error.__traceback__
    while frames is not None:
        if frames.tb_frame.f_code is code:
            return True
        frames = frames.tb_next
    return False


def _named(names):
    return ", ".join(repr(name) for name in names)


def import_entry_script(start):
    """Import the user's entry script, which must have init() and run(). Raises InitFailed."""
    path = os.path.join(start.app_root, start.entry_script)
    if not os.path.isfile(path):
        raise InitFailed("entry_script %r is not in the source_directory." % start.entry_script,
                         "Give its path within source_directory.")
    module = _executed(path, start.entry_script)
    _check(module, start.entry_script)
    return module


def call_init(module, entry_script):
    try:
        module.init()
    except BaseException as error:  # sys.exit() too: the service does not start
        raise InitFailed("init() of %s failed: %s" % (entry_script, one_line(error))) from error


def _executed(path, entry_script):
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        name = "entry_script_" + name
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        where = " in line %s" % error.lineno if error.lineno else ""
        raise InitFailed("%s is not valid Python%s: %s" % (
            os.path.basename(error.filename or entry_script), where, error.msg)) from error
    except BaseException as error:  # sys.exit() too: the service does not start
        raise InitFailed("Importing %s failed: %s" % (entry_script, one_line(error))) from error
    return module


def _check(module, entry_script):
    for name in ("init", "run"):
        if not callable(getattr(module, name, None)):
            raise InitFailed("%s has no function %s()." % (entry_script, name),
                             "Define init(), which loads the model, and run(data), which answers a request.")
    if not can_be_called(module.init):
        raise InitFailed("init() of %s takes arguments, and is called with none." % entry_script,
                         "Read what it needs from files or environment variables.")


def can_be_called(function, *arguments):
    """False if the signature does not fit; True if there is none."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def query_of_get(request):
    """First value of each name in the query of a GET; None for any other request."""
    if request.head is None or request.head["method"] != "GET":
        return None
    from urllib.parse import parse_qsl
    values = {}
    for name, value in parse_qsl(request.head["query"], keep_blank_values=True):
        values.setdefault(name, value)
    return values


def answer_of(value):
    """Answer for a return value of run(): a response unchanged, anything else as JSON."""
    if value is None:
        return _NOTHING
    if is_response(value):
        return response_answer(value)
    return answer_json(value)
