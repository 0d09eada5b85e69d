"""Tensors as ONNX Runtime Server has them in JSON: {"dims": [...], "dataType": n, "rawData": base64 or typed data}."""
import base64
import binascii

from runyard_sdk.scoring.answers import Refused, answer_json
from runyard_sdk.scoring.failure import InitFailed
from runyard_sdk.scoring.scorers.tensors import plain

# onnx.TensorProto.DataType: number -> (its name, numpy's, where its values lie when they are not raw).
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


def numpy_type(type_in_session):
    """Of 'tensor(float)' and the like."""
    import numpy
    name = type_in_session[len("tensor("):-1] if type_in_session.startswith("tensor(") else type_in_session
    try:
        return numpy.dtype(IN_SESSIONS.get(name, name)).type if name != "string" else object
    except TypeError:
        raise InitFailed("The model has an input of type %s, for which JSON has no form." % type_in_session,
                         "Export it with inputs that are tensors of numbers or texts, or deploy with a scoring script.")


def is_typed(body):
    """Whether the inputs say their own type and shape."""
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
    """Raw data is little-endian, whatever the machine."""
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
    if numpys == "float16":  # as the bits of it
        return numpy.array(values, dtype="uint16").view("float16")
    return numpy.array(values, dtype=numpys)


def _tensor(value):
    """Numbers of 64 bits are texts, as JSON of a protocol buffer has them. What is no tensor is told plainly."""
    if not hasattr(value, "dtype"):
        return plain(value)
    if value.dtype.kind in "OU":
        texts = [base64.b64encode(str(one).encode("utf-8")).decode("ascii") for one in value.ravel().tolist()]
        return {"dims": [str(size) for size in value.shape], "dataType": NUMBERS["STRING"], "stringData": texts}
    raw = value.astype(_little(value.dtype.name), copy=False).tobytes()
    return {"dims": [str(size) for size in value.shape], "dataType": BY_NUMPY[value.dtype.name],
            "rawData": base64.b64encode(raw).decode("ascii")}
