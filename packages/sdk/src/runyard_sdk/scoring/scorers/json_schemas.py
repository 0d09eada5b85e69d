"""JSON schemas and samples of nested lists, by shape: sizes from the outside in, no number where any will do."""

LARGEST_SAMPLE = 100
ZEROS = {"string": "", "boolean": False, "integer": 0, "number": 0.0}
KINDS = {"f": "number", "i": "integer", "u": "integer", "b": "boolean", "O": "string", "U": "string", "S": "string"}


def nested(json_type, shape):
    """The schema of a nested list; a shape of None is a list of anything."""
    if shape is None:
        return {"type": "array", "items": {}}
    values = {"type": json_type}
    for size in reversed(shape):
        values = {"type": "array", "items": values}
        if isinstance(size, int):
            values["minItems"] = values["maxItems"] = size
    return values


def sample(json_type, shape):
    """Zeros, one where any size will do; None where that is not known or large."""
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
