"""Private names of other packages may change in any release: a dependency that has one in use has an upper bound."""

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

PACKAGE = Path(__file__).parents[1] / "packages" / "runyard"
SDK = PACKAGE.parent / "sdk" / "src"
OURS = {"runyard", "runyard_sdk", "azureml"}
OF_OBJECTS = {"_gamma": "optuna"}
"""Private attributes of other packages' objects, which the source alone does not tell, and whose they are."""
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
_PRIVATE = re.compile(r"_[a-z]\w*")


class Use(NamedTuple):
    package: str
    name: str
    file: str


class Imports(ast.NodeVisitor):
    """What each name of a file was imported from, and the private names among it."""

    def __init__(self, tree: ast.AST) -> None:
        self.package_of: dict[str, str] = {}
        self.private: set[tuple[str, str]] = set()
        self.visit(tree)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.asname or alias.name.split(".")[0], alias.name.split("."))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._add(alias.asname or alias.name, [*(node.module or "").split("."), alias.name])

    def _add(self, name: str, path: list[str]) -> None:
        self.package_of[name] = path[0]
        self.private |= {(path[0], part) for part in path[1:] if _PRIVATE.fullmatch(part)}


@cache
def trees(source: Path = PACKAGE / "src") -> dict[str, ast.Module]:
    paths = sorted(source.rglob("*.py"))
    return {path.relative_to(source).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def own_names() -> set[str]:
    """All names that our own classes and modules define."""
    found: set[str] = set()
    for tree in [*trees().values(), *trees(SDK).values()]:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _root(node) in ("self", "cls"):
                found.add(node.attr)
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _private_attributes(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _PRIVATE.fullmatch(node.attr):
            yield node.attr, node.value
        elif (
            isinstance(node, ast.Call) and _root(node.func) in ("getattr", "setattr", "hasattr") and len(node.args) > 1
        ):
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and _PRIVATE.fullmatch(name.value):
                yield name.value, node.args[0]


@cache
def uses() -> set[Use]:
    """Every use of a private name of a package that is neither ours nor Python's."""
    found = set()
    for file, tree in trees().items():
        imports = Imports(tree)
        found |= {Use(package, name, file) for package, name in imports.private}
        for name, of in _private_attributes(tree):
            package = imports.package_of.get(_root(of), "")
            if name not in OF_NAMED_TUPLES and (package or name not in own_names()):
                found.add(Use(package or OF_OBJECTS.get(name, ""), name, file))
    return {use for use in found if use.package not in OURS | sys.stdlib_module_names}


def needed() -> dict[str, Requirement]:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def test_every_dependency_with_a_private_name_in_use_has_an_upper_bound() -> None:
    for use in uses():
        assert use.package, f"{use.file} uses {use.name} of another package: name it in OF_OBJECTS."
        bounds = needed()[use.package].specifier
        is_bounded = any(bound.operator in ("<", "<=", "==", "~=") for bound in bounds)
        assert is_bounded, f"{use.file} uses {use.package}'s {use.name}: give {use.package} an upper bound."


def test_these_are_the_private_names_in_use() -> None:
    assert {(use.package, use.name) for use in uses()} == {
        ("optuna", "_gamma"),
        ("ray", "_private"),
        *(("ray", f"_internal_kv_{verb}") for verb in ("exists", "put", "del", "list", "get")),
    }


def derived_classes() -> Iterator[tuple[str, str, set[str]]]:
    """Module, name and private names of each class of ours that has such and derives from one of another package."""
    for file, tree in trees().items():
        imports = Imports(tree)
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            bases = {imports.package_of.get(_root(base), "") for base in node.bases}
            names = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
            names |= {
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
            private = {name for name in names if _PRIVATE.fullmatch(name)}
            if private and bases - OURS - sys.stdlib_module_names - {""}:
                yield file.removesuffix(".py").replace("/", "."), node.name, private


def test_no_class_replaces_a_private_method_of_another_package() -> None:
    for module, name, private in derived_classes():
        made = getattr(importlib.import_module(module), name)
        foreign = [base for base in made.__mro__ if base.__module__.split(".")[0] not in OURS]
        taken = {each for each in private if any(hasattr(base, each) for base in foreign)}
        assert not taken, f"{module}.{name} replaces {taken} of {foreign}."
