"""REST API of TensorFlow Serving over the signatures of one model: :predict, :classify, :regress, status and metadata.

:predict takes rows, {"instances": [...]} -> {"predictions": [...]}, or columns, {"inputs": ...} -> {"outputs"}.
:classify and :regress take {"examples": [{feature: value}], "context": {...}} -> {"result": [...]}.
"""

import base64
import binascii
import json
import re
from collections import OrderedDict

from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.scorers import tensors
from runyard_sdk.scoring.scorers.batches import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object, json_type
from runyard_sdk.scoring.scorers.tensors import array_of, check_shape
from runyard_sdk.scoring.scorers.tf.saved_model import CLASSIFY, DEFAULT, PREDICT, REGRESS

ROUTE = re.compile(r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
                   r"(?P<metadata>/metadata)?(?::(?P<verb>[a-z]+))?")
VERBS = {"predict": PREDICT, "classify": CLASSIFY, "regress": REGRESS}
EXAMPLES = {"predict": '{"instances": [...]}', "classify": '{"examples": [{"feature": 1.0}]}'}
EXAMPLES["regress"] = EXAMPLES["classify"]
ROWS, COLUMNS = "instances", "inputs"
ANSWERS = {ROWS: "predictions", COLUMNS: "outputs"}
METADATA_TYPE = "type.googleapis.com/tensorflow.serving.SignatureDefMap"


class ServingScorer(object):
    batches = True
    methods = ["GET", "POST"]

    def __init__(self, start, model, signatures):
        self._service, self._model = start.service, model
        self._signatures = OrderedDict(sorted(signatures.items()))
        self._rows = RowsTogether(self._compute)
        self.schema = signature_schema(self._signatures)

    def score(self, requests):
        return answer_in_groups(requests, self._read, self._answer, _refusal)

    def _read(self, request):
        """(key, job). key[0] is (verb, signature), or None for what is answered without the model."""
        verb = "predict"
        if request.head and "/v1/models/" in request.head["path"]:
            route = self._route(request.head["path"])
            if request.head["method"] != "POST":
                return (None,), self._facts(route)
            verb = route.group("verb")
            if verb not in VERBS:
                raise Refused(404, "POST needs a verb behind the model: %s." % ", ".join(":" + one for one in VERBS))
        body = json_object(request.body, EXAMPLES[verb])
        name, signature = self._signature(body, verb)
        job = (read_instances if verb == "predict" else read_examples)(signature, body)
        return ((verb, name), job.kind, job.shapes), job

    def _answer(self, key, jobs):
        if key[0] is None:
            return [answer_json(job) for job in jobs]
        signature = self._signatures[key[0][1]]
        if signature.has_rows():
            outputs = self._rows.outputs(key, [job.arrays for job in jobs])
        else:
            outputs = [self._compute(key, job.arrays) for job in jobs]
        write = write_predictions if key[0][0] == "predict" else write_results
        return [write(signature, job, arrays) for job, arrays in zip(jobs, outputs)]

    def _compute(self, key, arrays):
        try:
            return self._signatures[key[0][1]].run(arrays)
        except Exception as error:
            if _is_about_inputs(error):
                raise Refused(400, _error_text(error))
            raise

    def _route(self, path):
        from urllib.parse import unquote
        route = ROUTE.fullmatch(path[path.index("/v1/models/"):])
        if route is None:
            raise Refused(404, "Malformed request: there is no route %s." % path)
        if unquote(route.group("model")) not in (self._model.name, self._service):
            raise Refused(404, "There is no model %s here; this is %s." % (
                unquote(route.group("model")), self._model.name))
        if route.group("label") or route.group("version") not in (None, str(self._model.version)):
            raise Refused(404, "Of model %s version %d is served, and no label." % (
                self._model.name, self._model.version))
        return route

    def _facts(self, route):
        if route.group("verb"):
            raise Refused(405, "Send a POST to :%s." % route.group("verb"))
        if route.group("metadata"):
            return model_metadata(self._model, self._signatures)
        return model_status(self._model)

    def _signature(self, body, verb):
        fitting = [name for name, one in self._signatures.items() if one.method == VERBS[verb]]
        name = str(body.get("signature_name") or DEFAULT)
        if "signature_name" not in body and name not in fitting and len(fitting) == 1:
            name = fitting[0]
        if name not in self._signatures:
            raise Refused(400, "Serving signature name: \"%s\" not found in signature def. The model has: %s." % (
                name, ", ".join(self._signatures)))
        # TensorFlow Serving lets :predict call any signature, and the other verbs only their own.
        if verb != "predict" and name not in fitting:
            raise Refused(400, "Signature \"%s\" cannot %s%s." % (name, verb, "; these can: " + ", ".join(fitting)
                                                                  if fitting else ". The model has none that can"))
        return name, self._signatures[name]


def _refusal(status, message):
    return answer_json({"error": message}, status)


def _is_about_inputs(error):
    """Whether it is TensorFlow's error for invalid inputs, or Python's for shapes that do not fit."""
    return isinstance(error, (ValueError, TypeError)) or type(error).__name__ == "InvalidArgumentError"


def _error_text(error):
    """The line of the message that says what is wrong, without positions in the graph."""
    return str(error).split("\n\t [[")[0].strip().splitlines()[-1]


class Job(object):
    """One request: arrays in the order of the signature's inputs."""

    def __init__(self, kind, arrays):
        self.kind, self.arrays = kind, arrays
        self.shapes = tuple((array.dtype.kind, array.shape[1:]) for array in arrays)


def read_instances(signature, body):
    """Job of the request. Raises Refused where it does not fit the signature."""
    given = [kind for kind in (ROWS, COLUMNS) if kind in body]
    if len(given) != 1:
        raise Refused(400, "The body must have either \"instances\" (rows) or \"inputs\" (columns)%s." % (
            "; it has both" if given else ""))
    kind = given[0]
    columns = (_from_rows if kind == ROWS else _from_columns)(signature, body[kind])
    missing = [alias for alias in signature.inputs if alias not in columns and alias not in signature.optional]
    unknown = [alias for alias in columns if alias not in signature.inputs]
    if missing or unknown:
        raise Refused(400, "Inputs must be %s; %s." % (", ".join(signature.inputs), "; ".join(
            ["%s: missing" % alias for alias in missing] + ["%s: unknown" % alias for alias in unknown])))
    return Job(kind, [_array(alias, tensor, columns.get(alias, signature.optional.get(alias)))
                      for alias, tensor in signature.inputs.items()])


def write_predictions(signature, job, arrays):
    """Answer from the model's outputs in the order of the signature."""
    values = {alias: _plain(alias, tensor, array)
              for (alias, tensor), array in zip(signature.outputs.items(), arrays)}
    if len(values) == 1:
        result = next(iter(values.values()))
        if job.kind == ROWS and not isinstance(result, list):
            result = [result]
    elif job.kind == ROWS:
        result = _as_rows(values)
    else:
        result = values
    # NaN and infinities as NaN, Infinity and -Infinity, as TensorFlow Serving writes them.
    return 200, None, ('{"%s": %s}' % (ANSWERS[job.kind], json.dumps(result))).encode("ascii")


def decoded(value):
    """Value with each {"b64": text} replaced by its bytes."""
    if isinstance(value, list):
        return [decoded(one) for one in value]
    if isinstance(value, dict) and list(value) == ["b64"]:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise Refused(400, "A \"b64\" value is not base64: %s." % error)
    return value


def _from_rows(signature, instances):
    if not isinstance(instances, list) or not instances:
        raise Refused(400, "\"instances\" must be a list of at least one row.")
    if not _names_inputs(instances[0]):
        return {_only_input(signature, "\"instances\""): instances}
    aliases = set(instances[0])
    for at, instance in enumerate(instances):
        if not isinstance(instance, dict) or set(instance) != aliases:
            raise Refused(400, "Row %d of \"instances\" must be an object with %s, as the first." % (
                at, ", ".join(sorted(aliases))))
    return {alias: [instance[alias] for instance in instances] for alias in aliases}


def _from_columns(signature, inputs):
    return inputs if _names_inputs(inputs) else {_only_input(signature, "\"inputs\""): inputs}


def _names_inputs(value):
    return isinstance(value, dict) and list(value) != ["b64"]


def _only_input(signature, where):
    needed = [alias for alias in signature.inputs if alias not in signature.optional]
    if len(needed) != 1:
        raise Refused(400, "The signature has %d inputs; %s must name them: %s." % (
            len(needed), where, ", ".join(needed)))
    return needed[0]


def _array(alias, tensor, value):
    if tensor.is_text:
        value, dtype = _texts(alias, decoded(value)), object
    else:
        dtype = tensor.dtype.as_numpy_dtype
    array = array_of(alias, value, dtype)
    if tensor.shape is not None:
        check_shape(alias, array, tensor.shape)
    return array


def _texts(alias, value):
    if isinstance(value, list):
        return [_texts(alias, one) for one in value]
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, bytes):
        return value
    raise Refused(400, "Input %s takes texts, not a JSON %s." % (alias, json_type(value)))


def _plain(alias, tensor, array):
    values = array.tolist()
    return _written_texts(values, alias.endswith("_bytes")) if tensor.is_text else values


def _written_texts(value, as_base64):
    """Base64 for the texts of an output called ..._bytes, as in TensorFlow Serving."""
    if isinstance(value, list):
        return [_written_texts(one, as_base64) for one in value]
    if isinstance(value, bytes) and not as_base64:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            as_base64 = True
    return {"b64": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value


def _as_rows(values):
    counts = {len(value) if isinstance(value, list) else None for value in values.values()}
    if len(counts) != 1 or None in counts:
        raise Refused(400, "The outputs have unlike numbers of rows: ask with \"inputs\" in place of \"instances\".")
    return [dict(zip(values, row)) for row in zip(*values.values())]


def read_examples(signature, body):
    """Job of serialized tf.train.Example, which such signatures take."""
    import numpy
    examples, context = body.get("examples"), body.get("context") or {}
    if not isinstance(examples, list) or not examples:
        raise Refused(400, "\"examples\" must be a list of at least one object of features.")
    for value in examples + [context]:
        if not isinstance(value, dict):
            raise Refused(400, "An example or context is an object of features, not a JSON %s." % json_type(value))
    serialized = [_example(dict(context, **example)).SerializeToString() for example in examples]
    return Job("examples", [numpy.array(serialized, dtype=object)])


def write_results(signature, job, arrays):
    outputs = dict(zip(signature.outputs, (array.tolist() for array in arrays)))
    if "outputs" in outputs:  # regress
        values = outputs["outputs"]
        return answer_json({"result": [value[0] if isinstance(value, list) else value for value in values]})
    rows = len(job.arrays[0])
    labels = outputs.get("classes") or [[""] * len(scores) for scores in outputs["scores"]]
    scores = outputs.get("scores") or [[0.0] * len(row) for row in labels]
    return answer_json({"result": [[[_text(label), score] for label, score in zip(labels[at], scores[at])]
                                   for at in range(rows)]})


def _text(label):
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)


def _example(features):
    import tensorflow as tf
    example = tf.train.Example()
    for name, value in features.items():
        values = decoded(value if isinstance(value, list) else [value])
        kind, plain = _kind(name, values)
        getattr(example.features.feature[name], kind).value.extend(plain)
    return example


def _kind(name, values):
    """Type of a feature: all of its values have one, as in the proto."""
    if all(isinstance(value, (str, bytes)) for value in values):
        return "bytes_list", [value.encode("utf-8") if isinstance(value, str) else value for value in values]
    if all(isinstance(value, int) for value in values):
        return "int64_list", [int(value) for value in values]
    if all(isinstance(value, (int, float)) for value in values):
        return "float_list", values
    raise Refused(400, "Feature %s must be numbers or texts, all of one kind." % name)


def model_status(model):
    return {"model_version_status": [{
        "version": str(model.version), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]}


def model_metadata(model, signatures):
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": str(model.version)},
        "metadata": {"signature_def": {
            "@type": METADATA_TYPE,
            "signature_def": {name: {
                "inputs": {alias: _tensor(one) for alias, one in signature.inputs.items()},
                "outputs": {alias: _tensor(one) for alias, one in signature.outputs.items()},
                "method_name": signature.method,
            } for name, signature in signatures.items()},
        }},
    }


def signature_schema(signatures):
    """Schema of the row format and of the default signature."""
    name = DEFAULT if DEFAULT in signatures else next(iter(signatures))
    signature = signatures[name]
    inputs = {alias: one for alias, one in signature.inputs.items() if alias not in signature.optional}
    # An object per row, unless there is only one input.
    row = _row(inputs) if len(inputs) > 1 else _values(next(iter(inputs.values()))) if inputs else {}
    result = _row(signature.outputs) if len(signature.outputs) > 1 else _values(next(iter(signature.outputs.values())))
    facts = {
        "input": {"type": "object", "properties": {
            "signature_name": {"type": "string", "enum": list(signatures), "default": name},
            "instances": {"type": "array", "items": row}, "inputs": {}}},
        "output": {"type": "object", "properties": {
            "predictions": {"type": "array", "items": result}, "outputs": {}}},
    }
    samples = {alias: _sample(one) for alias, one in inputs.items()}
    if samples and None not in samples.values():
        facts["sample_input"] = {"instances": [samples if len(samples) > 1 else next(iter(samples.values()))]}
    return facts


def _tensor(tensor):
    sizes = tensor.shape or []
    return {
        "dtype": "DT_" + tensor.dtype.name.upper().replace("FLOAT32", "FLOAT").replace("FLOAT64", "DOUBLE"),
        "tensor_shape": {"dim": [{"size": str(-1 if size is None else size), "name": ""} for size in sizes],
                         "unknown_rank": tensor.shape is None},
        "name": tensor.name,
    }


def _row(tensors):
    return {"type": "object", "properties": {alias: _values(one) for alias, one in tensors.items()}}


def _values(tensor):
    """JSON of one row."""
    return tensors.nested_schema(_json_type(tensor), (tensor.shape or [])[1:])


def _sample(tensor):
    return tensors.sample_value(_json_type(tensor), (tensor.shape or [])[1:])


def _json_type(tensor):
    if tensor.is_text:
        return "string"
    if tensor.dtype.name == "bool":
        return "boolean"
    return "integer" if tensor.dtype.is_integer else "number"
