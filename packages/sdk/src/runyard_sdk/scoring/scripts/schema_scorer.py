"""Scripts whose run() is decorated by the package inference_schema."""
import inspect
import json

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.failure import one_line
from runyard_sdk.scoring.scripts.query import query_of_get
from runyard_sdk.scoring.scripts.results import answer_of

_UNKNOWN = {"type": "object"}


def is_decorated(run):
    from inference_schema.schema_util import is_schema_decorated
    return is_schema_decorated(run)


class SchemaScript(object):
    """run(**parameters): the body is a JSON object whose keys are the parameters."""

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
    """Schemas and samples by the package's own registry, for an OpenAPI document."""
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
    """(those without a default, all of them or None where any name is taken)."""
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
    """Whether the user's own code was running: else the decorators refused the values."""
    code, frames = getattr(function, "__code__", None), error.__traceback__
    while frames is not None:
        if frames.tb_frame.f_code is code:
            return True
        frames = frames.tb_next
    return False


def _named(names):
    return ", ".join(repr(name) for name in names)
