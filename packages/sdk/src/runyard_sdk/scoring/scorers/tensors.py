"""Plain JSON of tensors, for frameworks without a server format of their own.

{"data": nested list} for a model with one input, {"inputs": {name: nested list}} or {"inputs": [nested list, ...]} for
any; {"dtype": "int64"}, or one by name, where the model does not declare types. The answer is {"outputs": ...}.
"""

import json

from runyard_sdk.scoring.answers import Refused

EXAMPLE = '{"data": [[1.0, 2.0]]}'
LARGEST_SAMPLE = 100
ZEROS = {"string": "", "boolean": False, "integer": 0, "number": 0.0}
KINDS = {"f": "number", "i": "integer", "u": "integer", "b": "boolean", "O": "string", "U": "string", "S": "string"}


def read_values(body, names):
    """Nested lists of a request by input name, in the order of `names`."""
    if ("data" in body) == ("inputs" in body):
        raise Refused(400, "The body must have either \"data\" or \"inputs\". Send an object such as %s." % EXAMPLE)
    if "data" in body:
        if len(names) != 1:
            raise Refused(400, "The model has %d inputs: send {\"inputs\": {%s}}." % (
                len(names), ", ".join('"%s": ...' % name for name in names)))
        return {names[0]: body["data"]}
    inputs = body["inputs"]
    if isinstance(inputs, list) and len(inputs) == len(names):
        return dict(zip(names, inputs))
    if not isinstance(inputs, dict) or set(inputs) != set(names):
        given = sorted(inputs) if isinstance(inputs, dict) else len(inputs) if isinstance(inputs, list) else inputs
        raise Refused(400, "\"inputs\" must name %s; it has %s." % (", ".join(names), json.dumps(given)))
    return {name: inputs[name] for name in names}


def requested_types(body, names):
    """Types that the request names for each input, or None."""
    dtype = body.get("dtype")
    if dtype is None or isinstance(dtype, str):
        return {name: dtype for name in names}
    if not isinstance(dtype, dict) or not all(isinstance(one, str) for one in dtype.values()):
        raise Refused(400, "\"dtype\" must be a type such as \"float32\", or an object of them by input.")
    return {name: dtype.get(name) for name in names}


def array_of(name, value, dtype):
    """numpy array of a nested list. Raises Refused where it does not fit; without a `dtype` it must hold numbers."""
    import numpy
    try:
        array = numpy.asarray(value, dtype=dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(400, "Input %s cannot be made of what was sent: %s." % (name, str(error).rstrip(".")))
    if dtype is None and array.dtype.kind not in "fiub":
        raise Refused(400, "Input %s must be a list of numbers, or of lists that have one length." % name)
    if array.dtype.kind == "f" and numpy.isnan(array).any() and _has_null(value):  # numpy reads it as NaN
        raise Refused(400, "Input %s cannot be made of what was sent: null is no number." % name)
    return array


def _has_null(value):
    return value is None or isinstance(value, list) and any(map(_has_null, value))


def check_shape(name, array, shape):
    """Raises Refused unless the array fits; in `shape` None, or a name, means any size."""
    if len(shape) != array.ndim or any(isinstance(size, int) and size != given
                                       for size, given in zip(shape, array.shape)):
        raise Refused(400, "Input %s has the shape [%s]; the model takes [%s]." % (
            name, ", ".join(map(str, array.shape)),
            ", ".join(str(size) if isinstance(size, int) else "?" for size in shape)))


def write_outputs(value):
    """Answer for arrays, or lists and dicts of them."""
    # NaN and infinities as Python's json writes them: NaN, Infinity, -Infinity.
    return 200, None, ('{"outputs": %s}' % json.dumps(plain(value))).encode("ascii")


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else value


def schema(names, shapes=None, types=None):
    """JSON schemas of the plain form; shapes and numpy types by name if known."""
    import numpy
    shapes, types = shapes or {}, types or {}
    kinds = {name: KINDS.get(numpy.dtype(types.get(name, "f4")).kind, "number") for name in names}
    values = {name: nested_schema(kinds[name], shapes.get(name)) for name in names}
    samples = {name: sample_value(kinds[name], shapes.get(name)) for name in names}
    properties = {"inputs": {"type": "object", "properties": values, "required": list(names)}}
    if len(names) == 1:
        properties["data"] = values[names[0]]
    facts = {"input": {"type": "object", "properties": properties},
             "output": {"type": "object", "properties": {"outputs": {}}}}
    if names and None not in samples.values():
        facts["sample_input"] = {"data": samples[names[0]]} if len(names) == 1 else {"inputs": samples}
    return facts


def nested_schema(json_type, shape):
    """Schema of a nested list; a shape of None is a list of anything."""
    if shape is None:
        return {"type": "array", "items": {}}
    values = {"type": json_type}
    for size in reversed(shape):
        values = {"type": "array", "items": values}
        if isinstance(size, int):
            values["minItems"] = values["maxItems"] = size
    return values


def sample_value(json_type, shape):
    """Zeros, with size one where any size fits; None if the shape is unknown or large."""
    if shape is None:
        return None
    value, count = ZEROS[json_type], 1
    for size in reversed(shape):
        size = size if isinstance(size, int) else 1
        count *= size
        if count > LARGEST_SAMPLE:
            return None
        value = [value] * size
    return value
