"""Use cases take typed records: no request reaches them as a raw mapping."""

import ast
import inspect
import re
import typing
from collections.abc import Iterator

from runyard.http.context import Services

RAW = re.compile(r"\b(Mapping|dict|MutableMapping)\[str, (typing\.)?Any\]|\bJson\b")


def signatures(kind: type) -> Iterator[tuple[str, str]]:
    """Every method that others may call, with the types of what it takes and gives, as they are written."""
    tree = ast.parse(inspect.getsource(kind))
    for made in ast.walk(tree):
        if isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef) and not made.name.startswith("_"):
            given = [*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs]
            hints = [one.annotation for one in given] + [made.returns]
            yield f"{kind.__name__}.{made.name}", " ".join(ast.unparse(hint) for hint in hints if hint is not None)


def test_no_use_case_takes_or_gives_a_raw_mapping():
    use_cases = {kind for kind in typing.get_type_hints(Services).values() if inspect.isclass(kind)}
    assert len(use_cases) > 40
    raw = {name: hints for kind in use_cases for name, hints in signatures(kind) if RAW.search(hints)}
    assert raw == {}


def test_the_fields_of_what_a_use_case_takes_are_no_raw_mappings_either():
    """Records such as NewService, which routes make of a body."""
    raw = set()
    for kind in {kind for kind in typing.get_type_hints(Services).values() if inspect.isclass(kind)}:
        module = inspect.getmodule(kind)
        for record in vars(module).values():
            is_own = inspect.isclass(record) and record.__module__ == module.__name__
            if is_own and record.__name__.startswith("New"):
                raw |= {
                    f"{record.__name__}.{name}"
                    for name, hint in record.__annotations__.items()
                    if RAW.search(str(hint))
                }
    assert raw == set()
