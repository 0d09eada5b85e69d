"""What clients send: JSON objects."""
import json

from runyard_sdk.scoring.answers import Refused


def json_object(body, example):
    """The body as a dict; Refused 400 with `example`, a body that would do, for anything else."""
    try:
        # Python reads NaN and Infinity, which JSON lacks: clients in Python write them.
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(400, "The body is not JSON (%s). Send an object such as %s." % (error, example))
    if not isinstance(value, dict):
        raise Refused(400, "The body is a JSON %s. Send an object such as %s." % (json_type(value), example))
    return value


def json_type(value):
    """What JSON calls it."""
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), type(value).__name__)
