"""Use cases take typed records: no request reaches them as a raw mapping, by whatever name its type goes."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runyard.core.definitions.fields import JsonObject, JsonValue
from runyard.server.services import Services

RAW = (JsonObject, JsonValue, Mapping[str, Any], dict[str, Any])
DOCUMENTS = {
    "BuiltEnvironments.image": "the facts of an image, as its build wrote them",
    "BuiltEnvironments.image_of": "the same",
    "ServerMetrics.web_services": "the counts of each web service, as the gateway tells them",
    "Metrics.last_values": "what scripts logged: a number, a text, or a row of their own columns",
}
"""Use cases whose result is a document that others wrote, with the reason."""
FREE_FORM = {
    "Asset.body": "stored: each kind reads it by its definition",
    "RunRecord.error": "stored: what a script or a node told of the failure",
    "RunRecord.exit_facts": "stored: what the nodes told of the end",
    "DeploymentSpec.config": "each type of web service has parameters of its own, and a table that checks them",
    "MergePatch.fields": "the fields of what it is merged into; the merged object is read by its definition",
}
"""Fields of records that use cases take which may be raw, with the reason. `raw` of a definition is what is stored."""


def use_cases() -> set[type]:
    return {kind for kind in typing.get_type_hints(Services).values() if inspect.isclass(kind)}


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every method that others may call, by its full name."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            yield f"{kind.__name__}.{name}", method


def parts(hint: Any) -> Iterator[Any]:
    """The type itself, and those within it."""
    yield hint
    if not is_raw(hint):
        for inner in typing.get_args(hint):
            yield from parts(inner)


def is_raw(hint: Any) -> bool:
    return any(hint == raw for raw in RAW)


def hints_of(made: Any) -> dict[str, Any]:
    """As they are written, names in quotes looked up: get_type_hints would take the alias JsonValue apart."""
    known = vars(inspect.getmodule(made))
    return {name: known.get(hint, hint) if isinstance(hint, str) else hint for name, hint in _written(made).items()}


def _written(made: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(made):
        return {field.name: field.type for field in dataclasses.fields(made)}
    return inspect.get_annotations(made)


def records_in(hint: Any, seen: set[type]) -> None:
    """Add the records of ours that a value of this type is made of, however deep."""
    for part in parts(hint):
        is_ours = inspect.isclass(part) and part.__module__.startswith("runyard.")
        if is_ours and dataclasses.is_dataclass(part) and part not in seen:
            seen.add(part)
            for inner in hints_of(part).values():
                records_in(inner, seen)


def test_no_use_case_takes_a_raw_mapping():
    assert len(use_cases()) > 40
    raw = {
        f"{name}({parameter})"
        for kind in use_cases()
        for name, method in methods(kind)
        for parameter, hint in hints_of(method).items()
        if parameter != "return" and any(map(is_raw, parts(hint)))
    }
    assert raw == set()


def test_only_use_cases_that_show_documents_give_raw_mappings():
    raw = {
        name
        for kind in use_cases()
        for name, method in methods(kind)
        if any(map(is_raw, parts(hints_of(method).get("return"))))
    }
    assert raw == set(DOCUMENTS)


def test_the_records_that_use_cases_take_are_typed_all_the_way_down():
    taken: set[type] = set()
    for kind in use_cases():
        for _, method in methods(kind):
            for parameter, hint in hints_of(method).items():
                if parameter != "return":
                    records_in(hint, taken)
    raw = {
        f"{record.__name__}.{field}"
        for record in taken
        for field, hint in hints_of(record).items()
        if field != "raw" and any(map(is_raw, parts(hint)))
    }
    assert raw == set(FREE_FORM)
