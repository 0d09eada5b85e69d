from collections.abc import Mapping
from typing import Any

BY_TYPE = {"integer": 0, "number": 0.0, "boolean": False, "string": "", "null": None}
MOST_ITEMS = 1000


def sample_from(schema: Mapping[str, Any]) -> Any:
    """Sample of the schema, else a value that fits it; None without a schema."""
    for known in ("sample_input", "sample"):
        if schema.get(known) is not None:
            return schema[known]
    described = schema.get("input")
    return value_of(described) if isinstance(described, Mapping) and described else None


def value_of(schema: Mapping[str, Any]) -> Any:
    """A minimal value that a JSON schema accepts."""
    for given in ("example", "default", "const"):
        if given in schema:
            return schema[given]
    if schema.get("enum"):
        return schema["enum"][0]
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices:
        return value_of(choices[0])
    if "properties" in schema or schema.get("type") == "object":
        return _object(schema)
    if schema.get("type") == "array":
        count = min(max(int(schema.get("minItems", 1)), 1), MOST_ITEMS)
        return [value_of(schema.get("items") or {}) for _ in range(count)]
    return BY_TYPE.get(str(schema.get("type")))


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    wanted = schema.get("required") or list(properties)
    return {name: value_of(properties.get(name) or {}) for name in wanted}
