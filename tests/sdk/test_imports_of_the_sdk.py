"""What the SDK imports: a run may have nothing but the standard library."""

import ast
import configparser
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

SDK = Path(__file__).parents[2] / "packages" / "sdk"
OPTIONAL = {"IPython", "numpy", "pandas", "pyarrow", "yaml"}
"""Imported inside of functions alone, when a call needs them; scorers also import the framework of their model."""


def imports(tree: ast.AST, in_function: bool = False) -> Iterator[tuple[str, bool]]:
    """The first name of each absolute import, and whether it stands inside of a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], in_function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0], in_function
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports(node, inside)


def foreign() -> set[tuple[str, str, bool]]:
    ours = {"azureml", "runyard_sdk", *sys.stdlib_module_names}
    return {
        (path.relative_to(SDK / "src").as_posix(), name, in_function)
        for path in (SDK / "src").rglob("*.py")
        for name, in_function in imports(ast.parse(path.read_text(encoding="utf-8")))
        if name not in ours
    }


def test_modules_import_the_standard_library_alone() -> None:
    assert {each for each in foreign() if not each[2]} == set()


def test_functions_import_what_is_optional() -> None:
    assert {name for path, name, _ in foreign() if not path.startswith("runyard_sdk/scoring/")} == OPTIONAL


def test_pyyaml_is_imported_in_one_place_and_is_all_that_the_wheel_asks_for() -> None:
    assert {path for path, name, _ in foreign() if name == "yaml"} == {"azureml/_yaml/__init__.py"}
    configuration = configparser.ConfigParser()
    configuration.read(SDK / "setup.cfg")
    needed = [Requirement(line) for line in configuration["options"]["install_requires"].strip().splitlines()]
    assert {each.name for each in needed} == {"PyYAML"}
    (oldest,) = (each for each in needed if each.marker and each.marker.evaluate({"python_version": "3.6"}))
    assert oldest.specifier.contains("5.4.1"), "the last PyYAML with a wheel that the pip of Python 3.6 knows"
