"""How the SDK's public surface differs from the golden one, as a set of short names of differences."""

import importlib
import inspect
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def resolve(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def class_differences(name: str, facts: dict[str, Any]) -> Iterator[str]:
    try:
        ours = resolve(facts["path"])
    except (ImportError, AttributeError):
        yield f"{name}: missing"
        return
    yield from constructor_differences(name, ours, facts["constructor"])
    for member, wanted in facts["members"].items():
        found = inspect.getattr_static(ours, member, None)
        if found is None:
            yield f"{name}.{member}: missing"
        elif "signature" in wanted and signature_of(ours, member) != wanted["signature"]:
            yield f"{name}.{member}: signature"
        elif wanted["kind"] == "property" and not isinstance(found, property):
            yield f"{name}.{member}: not a property"


def constructor_differences(name: str, ours: type, wanted: str | None) -> Iterator[str]:
    if wanted is not None and not issubclass(ours, tuple) and without_self(inspect.signature(ours.__init__)) != wanted:
        yield f"{name}: constructor"


def signature_of(ours: type, member: str) -> str:
    found = inspect.getattr_static(ours, member)
    if isinstance(found, staticmethod):
        return rendered(list(inspect.signature(found.__func__).parameters.values()))
    function = found.__func__ if isinstance(found, classmethod) else found
    return without_self(inspect.signature(function)) if callable(function) else "not callable"


def without_self(signature: inspect.Signature) -> str:
    return rendered(list(signature.parameters.values())[1:])


def rendered(parameters: list[inspect.Parameter]) -> str:
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty, default=readable(parameter.default))
        for parameter in parameters
    ]
    return str(inspect.Signature(bare))


def readable(default: Any) -> Any:
    """An enum member as code writes it; anything else as it is."""
    return Written(str(default)) if isinstance(default, Enum) else default


class Written(str):
    def __repr__(self) -> str:
        return str(self)


def attribute_differences(name: str, instance: Any, attributes: list[str]) -> Iterator[str]:
    for attribute in attributes:
        if not hasattr(instance, attribute):
            yield f"{name}.{attribute}: missing attribute"


def field_differences(name: str, instance: Any, fields: list[str]) -> Iterator[str]:
    """Of what is kept in files: letter case of the keys does not count when they are read."""
    written = {key.lower() for key in instance._to_object()} if fields else set()
    yield from (f"{name}: no field {field}" for field in fields if field.lower() not in written)


def import_differences(paths: list[str]) -> Iterator[str]:
    for path in paths:
        try:
            resolve(path)
        except (ImportError, AttributeError):
            yield f"import {path}: missing"


def constant_differences(constants: dict[str, str]) -> Iterator[str]:
    for path, value in constants.items():
        try:
            found = repr(resolve(path))
        except (ImportError, AttributeError):
            yield f"constant {path}: missing"
            continue
        if found != value:
            yield f"constant {path}: other value"
