"""ONNX models without code, by onnxruntime: JSON of ONNX Runtime Server ({"dims", "dataType", "rawData" or typed
data}), or the plain form of tensors."""

import base64
import binascii

from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers import tensors
from runyard_sdk.scoring.scorers.batches import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object
from runyard_sdk.scoring.scorers.model_files import inside, only_model, only_one, with_suffix
from runyard_sdk.scoring.scorers.tensors import plain

# onnx.TensorProto.DataType: number -> (its name, numpy's, the field of non-raw values).
TYPES = {
    1: ("FLOAT", "float32", "floatData"), 2: ("UINT8", "uint8", "int32Data"), 3: ("INT8", "int8", "int32Data"),
    4: ("UINT16", "uint16", "int32Data"), 5: ("INT16", "int16", "int32Data"), 6: ("INT32", "int32", "int32Data"),
    7: ("INT64", "int64", "int64Data"), 8: ("STRING", "object", "stringData"), 9: ("BOOL", "bool", "int32Data"),
    10: ("FLOAT16", "float16", "int32Data"), 11: ("DOUBLE", "float64", "doubleData"),
    12: ("UINT32", "uint32", "uint64Data"), 13: ("UINT64", "uint64", "uint64Data"),
}
NUMBERS = {name: number for number, (name, _, _) in TYPES.items()}
BY_NUMPY = {numpys: number for number, (_, numpys, _) in TYPES.items()}
IN_SESSIONS = {"float": "float32", "double": "float64", "string": "object"}


def load(start):
    """Load the only .onnx file of the model, on the GPU if onnxruntime has one, else on the CPU."""
    import onnxruntime
    model = only_model(start)
    path = only_one(model, with_suffix(model, [".onnx", ".ort"]), "ONNX model", "model.onnx")
    try:
        session = onnxruntime.InferenceSession(path, providers=onnxruntime.get_available_providers())
    except TypeError:  # releases before 1.3 choose themselves
        session = onnxruntime.InferenceSession(path)
    except Exception as error:
        raise InitFailed(
            "'%s' cannot be loaded by onnxruntime %s: %s" % (
                inside(model, path), onnxruntime.__version__, one_line(error)),
            "Check the file with onnx.checker.check_model. Of a model with weights in files of their own, register the "
            "whole folder.") from error
    return OnnxScorer(session)


class OnnxScorer(object):
    batches = True

    def __init__(self, session):
        self._session = session
        self._inputs = {one.name: one for one in session.get_inputs()}
        self._outputs = [one.name for one in session.get_outputs()]
        self._rows = RowsTogether(self._compute)
        self._has_rows = all(_has_rows(one) for one in session.get_inputs() + session.get_outputs())
        self.schema = tensors.schema(
            list(self._inputs), {name: list(one.shape) for name, one in self._inputs.items()},
            {name: numpy_type(one.type) for name, one in self._inputs.items()})

    def score(self, requests):
        return answer_in_groups(requests, self._read, self._answer)

    def _read(self, request):
        body = json_object(request.body, tensors.EXAMPLE)
        wanted = wanted_outputs(body, self._outputs)
        is_typed = is_typed_json(body)
        if is_typed:
            arrays = read_inputs(body["inputs"], list(self._inputs))
        else:
            values = tensors.read_values(body, list(self._inputs))
            arrays = [tensors.array_of(name, values[name], numpy_type(one.type))
                      for name, one in self._inputs.items()]
        for (name, one), array in zip(self._inputs.items(), arrays):
            tensors.check_shape(name, array, one.shape)
        fits = tuple((array.dtype.str, array.shape[1:]) for array in arrays)
        return (wanted, is_typed, fits), arrays

    def _answer(self, key, jobs):
        wanted, is_typed, _ = key
        if self._has_rows:
            outputs = self._rows.outputs(key, jobs)
        else:
            outputs = [self._compute(key, job) for job in jobs]
        write = write_outputs if is_typed else tensors.write_outputs
        return [write(dict(zip(wanted, values))) for values in outputs]

    def _compute(self, key, arrays):
        try:
            return self._session.run(list(key[0]), dict(zip(self._inputs, arrays)))
        except Exception as error:
            # Errors of the model for these inputs; onnxruntime's errors have no common class.
            if type(error).__name__ in ("InvalidArgument", "RuntimeException", "Fail", "RuntimeError"):
                raise Refused(400, str(error))
            raise


def _has_rows(argument):
    """Whether its first dimension is free, so that rows can be separated."""
    return argument.type.startswith("tensor(") and bool(argument.shape) and not isinstance(argument.shape[0], int)


def numpy_type(type_in_session):
    """numpy type of 'tensor(float)' and the like."""
    import numpy
    name = type_in_session[len("tensor("):-1] if type_in_session.startswith("tensor(") else type_in_session
    try:
        return numpy.dtype(IN_SESSIONS.get(name, name)).type if name != "string" else object
    except TypeError:
        raise InitFailed("The model has an input of type %s, for which JSON has no form." % type_in_session,
                         "Export it with inputs that are tensors of numbers or texts, or deploy with a scoring script.")


def is_typed_json(body):
    """Whether the inputs carry their own type and shape."""
    inputs = body.get("inputs")
    return isinstance(inputs, dict) and bool(inputs) and all(
        isinstance(one, dict) and "dims" in one for one in inputs.values())


def read_inputs(inputs, names):
    """Arrays in the order of `names`."""
    if set(inputs) != set(names):
        raise Refused(400, "\"inputs\" must name %s; it has %s." % (", ".join(names), ", ".join(inputs)))
    return [_array(name, inputs[name]) for name in names]


def wanted_outputs(body, names):
    wanted = body.get("outputFilter") or names
    if not isinstance(wanted, list) or not set(map(str, wanted)) <= set(names):
        raise Refused(400, "\"outputFilter\" must list some of the model's outputs: %s." % ", ".join(names))
    return tuple(wanted)


def write_outputs(values):
    return answer_json({"outputs": {name: _tensor(value) for name, value in values.items()}})


def _array(name, tensor):
    import numpy
    data_type = tensor.get("dataType")
    number = NUMBERS.get(str(data_type).upper(), data_type)
    if not isinstance(number, int) or number not in TYPES:
        raise Refused(400, "dataType of input %s is %r; it must be one of %s." % (
            name, data_type, ", ".join("%d (%s)" % (one, TYPES[one][0]) for one in TYPES)))
    _, numpys, field = TYPES[number]
    try:
        dims = [int(size) for size in tensor["dims"]]
        if any(size < 0 for size in dims):
            raise ValueError("a size is below zero")
        if tensor.get("rawData") is not None:
            array = numpy.frombuffer(base64.b64decode(tensor["rawData"], validate=True), _little(numpys))
        else:
            array = _typed(tensor, field, numpys)
        return array.astype(numpys, copy=False).reshape(dims)
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise Refused(400, "Input %s cannot be read as %s of %s: %s." % (
            name, TYPES[number][0], tensor["dims"], error))


def _little(numpys):
    """Little-endian form: raw data is, whatever the machine."""
    import numpy
    if numpys == "object":
        raise ValueError("texts have no rawData; send stringData")
    return numpy.dtype(numpys).newbyteorder("<")


def _typed(tensor, field, numpys):
    import numpy
    values = tensor.get(field)
    if not isinstance(values, list):
        raise ValueError("neither rawData nor %s is there" % field)
    if numpys == "object":  # bytes, which JSON writes as base64
        return numpy.array([base64.b64decode(one, validate=True).decode("utf-8") for one in values], dtype=object)
    if numpys == "float16":  # as its bits
        return numpy.array(values, dtype="uint16").view("float16")
    return numpy.array(values, dtype=numpys)


def _tensor(value):
    """JSON of a tensor. 64-bit numbers are texts, as in JSON of protocol buffers. Other values are written plainly."""
    if not hasattr(value, "dtype"):
        return plain(value)
    if value.dtype.kind in "OU":
        texts = [base64.b64encode(str(one).encode("utf-8")).decode("ascii") for one in value.ravel().tolist()]
        return {"dims": [str(size) for size in value.shape], "dataType": NUMBERS["STRING"], "stringData": texts}
    raw = value.astype(_little(value.dtype.name), copy=False).tobytes()
    return {"dims": [str(size) for size in value.shape], "dataType": BY_NUMPY[value.dtype.name],
            "rawData": base64.b64encode(raw).decode("ascii")}
