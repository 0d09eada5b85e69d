"""Request bodies: JSON objects."""
import json

from runyard_sdk.scoring.answers import Refused


def json_object(body, example):
    """Body as a dict. Raises Refused (400), with `example` as a valid body, for anything else."""
    try:
        # Python accepts NaN and Infinity, which JSON lacks, because Python clients write them.
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(400, "The body is not JSON (%s). Send an object such as %s." % (error, example))
    if not isinstance(value, dict):
        raise Refused(400, "The body is a JSON %s. Send an object such as %s." % (json_type(value), example))
    return value


def json_type(value):
    """JSON name of the value's type."""
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), type(value).__name__)
