import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel
from typing_extensions import is_typeddict


def add_notes(schemas: dict[str, Any], roots: Iterable[Any]) -> None:
    """Add to these schemas the docstrings that stand below fields in the models reachable from `roots`."""
    known: dict[str, list[type]] = {}
    for model in _models(roots):
        known.setdefault(model.__name__, []).append(model)
    for name, models in known.items():
        for model in models:
            # How pydantic names models that share a class name.
            long = f"{model.__module__}.{model.__qualname__}".replace(".", "__")
            schema = schemas.get(name if len(models) == 1 else long, {})
            for field, text in notes_of(model).items():
                if field in schema.get("properties", {}):
                    schema["properties"][field].setdefault("description", text)


def notes_of(model: type) -> dict[str, str]:
    """Docstrings by field, inherited ones included."""
    found: dict[str, str] = {}
    for one in reversed(_lineage(model)):
        if one.__module__.startswith("runyard"):
            found.update(_own_notes(one))
    return found


def _lineage(model: type) -> list[type]:
    """The class and its bases; a TypedDict has them in `__orig_bases__` and not in its MRO."""
    if not is_typeddict(model):
        return list(model.__mro__)
    above = [one for one in getattr(model, "__orig_bases__", ()) if is_typeddict(one)]
    return [model, *(other for one in above for other in _lineage(one))]


def _own_notes(model: type) -> Iterator[tuple[str, str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for above, below in zip(tree.body, tree.body[1:], strict=False):
        match above, below:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                yield field, " ".join(text.split())


def _models(roots: Iterable[Any]) -> list[type]:
    """All models reachable from the roots, each once."""
    found: dict[type, None] = {}
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        waiting.extend(get_args(one))
        if isinstance(one, type) and one not in found and _is_model(one):
            found[one] = None
            waiting.extend(_annotations(one))
    return list(found)


def _is_model(one: type) -> bool:
    return is_dataclass(one) or is_typeddict(one) or issubclass(one, BaseModel)


def _annotations(model: type) -> list[Any]:
    if not is_typeddict(model) and issubclass(model, BaseModel):
        return [field.annotation for field in model.model_fields.values()]
    return list(get_type_hints(model).values())
