"""Every regular expression of the packages, found in their source."""

import ast
import importlib
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).parents[2] / "packages"
SOURCES = {"runyard": PACKAGES / "runyard/src", "sdk": PACKAGES / "sdk/src"}
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
Methods = dict[tuple[Path | None, str], set[str]]


@dataclass
class Expression:
    """One call of the `re` module; `patterns` is empty when only running code knows the text."""

    place: (
        str  # "runyard/environments/planning/packages.py:_option": file and function, which outlive a change of lines
    )
    line: int
    source: str
    patterns: list["re.Pattern[Any]"] = field(default_factory=list)
    methods: set[str] = field(default_factory=set)


def expressions() -> list[Expression]:
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8")) for root in SOURCES.values() for path in root.rglob("*.py")
    }
    used = _methods_of_names(trees)
    return [found for path in sorted(trees) for found in _in_file(path, trees[path], used)]


def _methods_of_names(trees: dict[Path, ast.Module]) -> Methods:
    """Collect the methods called on each name: of a private one in its own file, of others anywhere."""
    used: Methods = defaultdict(set)
    used.update({(None, f".{method}"): {method} for method in FUNCTIONS})
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in FUNCTIONS
                and isinstance(node.value, ast.Name | ast.Attribute)
            ):
                name = _last_name(node.value)
                used[path if name.startswith("_") else None, name].add(node.attr)
    return used


def _last_name(node: ast.AST) -> str:
    """`pattern` of `pattern` and of `self.pattern`; '' of anything else."""
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _in_file(path: Path, tree: ast.Module, used: Methods) -> list[Expression]:
    root = next(root for root in SOURCES.values() if path.is_relative_to(root))
    relative = path.relative_to(root)
    aliases = {
        a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names if a.name == "re"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            raise AssertionError(f"{relative}: write `import re`, so that every expression is found by its `re.` call.")
    if not aliases:
        return []
    module = importlib.import_module(".".join(relative.with_suffix("").parts).removesuffix(".__init__"))
    return [
        _expression(call, path, f"{relative.as_posix()}:{function}", name, vars(module), used)
        for call, function, name in _calls(tree, aliases)
    ]


def _calls(tree: ast.Module, aliases: set[str]) -> list[tuple[ast.Call, str, str]]:
    """Return each call with the function it stands in and the name its result is given to."""
    found: list[tuple[ast.Call, str, str]] = []

    def walk(node: ast.AST, function: str, name: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Assign):
            name = _last_name(node.targets[0])
        if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            name = f".{node.attr}"  # the method that is asked of the result itself
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS:
            of = node.func.value
            if isinstance(of, ast.Name) and of.id in aliases:
                found.append((node, function, name))
        for child in ast.iter_child_nodes(node):
            walk(child, function, name)

    walk(tree, "", "")
    return found


def _expression(call: ast.Call, path: Path, place: str, name: str, known: dict[str, Any], used: Methods) -> Expression:
    assert isinstance(call.func, ast.Attribute)
    found = Expression(place, call.lineno, ast.unparse(call))
    found.methods = (
        {call.func.attr}
        if call.func.attr != "compile"
        else used.get((path if name.startswith("_") else None, name)) or {"search"}
    )
    flags = [k.value for k in call.keywords if k.arg == "flags"]
    arguments = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(call.func.attr, 2)
    flags += call.args[arguments : arguments + 1]
    try:
        pattern = eval(ast.unparse(call.args[0]), dict(known))
        found.patterns.append(re.compile(pattern, eval(ast.unparse(flags[0]), dict(known)) if flags else 0))
    except NameError:
        pass  # a local name: the table in the test says what it can be
    return found
