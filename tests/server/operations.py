"""Every operation of the OpenAPI, with addresses and bodies that its schema allows."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runyard.server.app import PREFIX

Schema = Mapping[str, Any]
_SOURCES = {"sources": [{"datastore": "workspaceblobstore", "path": "out"}]}
_DEFINITIONS: Mapping[str, Any] = {
    "POST /workspaces/{workspace}/assets/{kind}": {"name": "probe", "body": {"files": []}},
    "POST /workspaces/{workspace}/datasets": {"body": _SOURCES},
    "POST /workspaces/{workspace}/datasets/resolve": {"body": _SOURCES},
}
"""Bodies of operations where the least that the schema allows is no definition, which is refused at the edge."""


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    """Without the prefix of the API."""
    body: Schema | None
    """The schema of a JSON body."""
    takes_bytes: bool
    answer: Schema | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def least_body(self) -> Any:
        """The smallest JSON body that is accepted; None where it takes none."""
        return _DEFINITIONS.get(str(self), None if self.body is None else least(self.body))

    def at(self, names: Mapping[str, str]) -> str:
        return PREFIX + re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "x"), self.path)


@cache
def openapi() -> Schema:
    """The OpenAPI of the golden file: making it takes a second, and test_openapi.py holds it equal to the code."""
    golden = Path(__file__).parents[2] / "docs" / "openapi.json"
    return dict(json.loads(golden.read_text(encoding="utf-8")))


@cache
def operations() -> tuple[Operation, ...]:
    return tuple(sorted(_found(), key=lambda one: (one.path, one.method)))


def _found() -> Iterator[Operation]:
    of_the_api = {path: told for path, told in openapi()["paths"].items() if path.startswith(PREFIX)}
    for path, methods in of_the_api.items():
        for method, told in methods.items():
            content = told.get("requestBody", {}).get("content", {})
            body = content.get("application/json", {}).get("schema")
            good = [told["responses"][code] for code in told["responses"] if code.startswith("2")]
            answer = good[0].get("content", {}).get("application/json", {}).get("schema") if good else None
            takes_bytes = bool(content) and body is None
            yield Operation(method.upper(), path.removeprefix(PREFIX), body, takes_bytes, answer)


def resolved(given: Schema) -> Schema:
    """Without references and choices: the first that is no null."""
    if "$ref" in given:
        return resolved(openapi()["components"]["schemas"][given["$ref"].rpartition("/")[2]])
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in given:
            return resolved(next(one for one in given[choice] if one.get("type") != "null"))
    return given


def least(given: Schema) -> Any:
    """The smallest value that the schema allows."""
    told = resolved(given)
    if told.get("examples"):
        return told["examples"][0]
    if "const" in told:
        return told["const"]
    if "enum" in told:
        return told["enum"][0]
    match told.get("type"):
        case "object":
            return {name: least(told["properties"][name]) for name in told.get("required", ())}
        case "array":
            return [least(told["items"])] * told.get("minItems", 0) if "items" in told else []
        case "string":
            return "x" * max(1, told.get("minLength", 1))
        case "integer" | "number":
            return told.get("minimum", 1)
        case "boolean":
            return False
    return {}
