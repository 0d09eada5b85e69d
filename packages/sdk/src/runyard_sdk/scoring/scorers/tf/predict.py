"""Bodies of :predict. Rows: {"instances": [...]} -> {"predictions": [...]}; columns: {"inputs": ...} -> {"outputs"}."""
import base64
import binascii
import json

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.scorers.bodies import json_type
from runyard_sdk.scoring.scorers.tensors import array_of, check_shape

ROWS, COLUMNS = "instances", "inputs"
ANSWERS = {ROWS: "predictions", COLUMNS: "outputs"}


class Job(object):
    """What one request asks for: arrays in the order of the signature's inputs."""

    def __init__(self, kind, arrays):
        self.kind, self.arrays = kind, arrays
        self.shapes = tuple((array.dtype.kind, array.shape[1:]) for array in arrays)


def read(signature, body):
    """The request's Job; Refused says what does not fit the signature."""
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


def write(signature, job, arrays):
    """The answer to a request, from the model's outputs in the order of the signature."""
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
    # NaN and infinities stand as NaN, Infinity and -Infinity, as TensorFlow Serving writes them.
    return 200, None, ('{"%s": %s}' % (ANSWERS[job.kind], json.dumps(result))).encode("ascii")


def decoded(value):
    """The value with each {"b64": text} in it replaced by its bytes."""
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
    """TensorFlow Serving writes the texts of an output called ..._bytes as base64."""
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
