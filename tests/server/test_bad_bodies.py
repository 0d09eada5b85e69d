"""Every route that takes JSON refuses what its model does not allow: 4xx, our error shape, the field's path."""

import json
from typing import Any

import pytest

from tests.server.operations import Operation, least, operations, resolved
from tests.wire_client import PREFIX, Answer, WireClient

WITH_BODY = [one for one in operations() if one.body is not None]
BROKEN = {
    "invalid UTF-8": b'{"a": "\xff\xfe"}',
    "half an object": b'{"a": ',
    "no JSON": b"<html>",
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "2,000 deep": b'{"a": ' * 2000 + b"1" + b"}" * 2000,
    "2,000 lists deep": b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    "a list": b"[]",
    "a text": b'"x"',
    "a lone surrogate": b'{"a": "\\ud800"}',
}
WRONG: list[Any] = [None, True, 17, 10**400, -1.5, "", "text", [], [[]], {}, {"a": {"b": []}}]


def _refused(answer: Answer, what: str) -> dict[str, Any]:
    assert 400 <= answer.status < 500, (what, answer.status, answer.body)
    told = answer.json
    assert set(told) == {"code", "problem", "hint", "facts"}, what
    assert "Traceback" not in told["problem"]
    return dict(told)


@pytest.fixture
def names(client: WireClient) -> dict[str, str]:
    return {"workspace": client.workspace, "run_id": f"bad-{client.workspace}", "attempt_id": "x.1"}


def test_there_are_routes_with_bodies():
    assert len(WITH_BODY) > 20


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_what_is_no_json_object_is_refused(client, names, operation: Operation):
    for what, body in BROKEN.items():
        _refused(client.ask(operation.method, operation.at(names), body), f"{operation}: {what}")


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_a_field_of_the_wrong_type_is_named(client, names, operation: Operation):
    model = resolved(operation.body or {})
    right = least(model)
    for field, told in model.get("properties", {}).items():
        for value in WRONG:
            if _may_be(told, value):
                continue
            body = json.dumps({**right, field: value}).encode()
            answer = client.ask(operation.method, operation.at(names), body)
            refusal = _refused(answer, f"{operation}: {field}={value!r:.20}")
            assert refusal["code"] == "invalid_argument", refusal
            assert refusal["problem"].startswith(field), refusal
            assert refusal["facts"]["fields"][0]["path"].partition(".")[0] == field


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_a_missing_field_is_named(client, names, operation: Operation):
    model = resolved(operation.body or {})
    right = least(model)
    for field in model.get("required", ()):
        body = {name: value for name, value in right.items() if name != field}
        refusal = _refused(client.ask(operation.method, operation.at(names), body), f"{operation} without {field}")
        assert f"{field}: is missing" in refusal["problem"]


@pytest.mark.parametrize("operation", WITH_BODY[:3], ids=str)
def test_a_body_that_is_too_large_is_refused_before_it_is_read(client, names, operation: Operation):
    huge = b'{"a": "' + b"x" * (80 << 20) + b'"}'
    try:
        answer = client.ask(operation.method, operation.at(names), huge)
    except (BrokenPipeError, ConnectionResetError):
        return  # it answered and closed before all was sent
    assert answer.status == 413


def test_the_client_is_told_all_fields_at_once(client):
    path = f"{PREFIX}{client.here}"
    told = client.ask("PUT", path, {"description": 1, "friendly_name": [], "exist_ok": "yes"}).json
    assert [one["path"] for one in told["facts"]["fields"]] == ["friendly_name", "description", "exist_ok"]


MANY_WRONG = {
    "sha256": ("POST", "/blobs/missing", {"sha256": [1] * 50_000}),
    "snapshot": ("PUT", "/runs/r/snapshot", {"snapshot": [1] * 50_000}),
    "warnings": ("PATCH", "/runs/r", {"warnings": [1] * 50_000}),
    "tags": ("PATCH", "/runs/r", {"tags": {str(number): [] for number in range(50_000)}}),
}


@pytest.mark.parametrize("field", MANY_WRONG)
def test_of_many_wrong_items_few_are_told(client, field):
    """Each costs a kilobyte and 30 microseconds of the loop that answers everybody."""
    method, path, body = MANY_WRONG[field]
    refusal = _refused(client.ask(method, PREFIX + path, body), field)
    assert refusal["problem"].startswith(f"{field}.")
    assert len(refusal["facts"]["fields"]) <= 2


def _may_be(told: Any, value: Any) -> bool:
    """Whether the schema might allow the value; only what it surely refuses is tried."""
    if "$ref" in told:
        return _may_be(resolved(told), value)
    for choice in ("anyOf", "oneOf"):
        if choice in told:
            return any(_may_be(one, value) for one in told[choice])
    match told.get("type"):
        case "string":
            return isinstance(value, str) and "enum" not in told and "const" not in told
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return is_whole and told.get("minimum", value) <= value <= told.get("maximum", value)
        case "number":
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return is_number and told.get("minimum", value) <= value <= told.get("maximum", value)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict) or (value is None and "additionalProperties" in told)
        case "null":
            return value is None
    return True
