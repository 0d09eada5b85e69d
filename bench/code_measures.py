"""`python -m bench.code_measures [FOLDER ...]`: how the source is laid out, as a table and as JSON lines with --json.

Counts library code only. A hidden import is one of the package's own modules inside a function; cycles are of the other
imports, counted in modules. Lengths of functions leave the docstring out.
"""

import argparse
import ast
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median, quantiles

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = (REPOSITORY / "packages/runyard/src/runyard", REPOSITORY / "packages/sdk/src")
SMALL_LINES = 40


class Tree:
    """The modules below one folder, parsed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.parent if (folder / "__init__.py").exists() else folder
        files = (file for file in sorted(folder.rglob("*.py")) if "migrations" not in file.parts)
        self.files = {_module(file, self.root): file for file in files}
        self.texts = {name: file.read_text(encoding="utf-8") for name, file in self.files.items()}
        self.parsed = {name: ast.parse(text) for name, text in self.texts.items()}
        self._found = {name: list(_import_statements(tree.body)) for name, tree in self.parsed.items()}
        self.imports = {
            name: set(self._imported(node for node, _ in found)) - {name} for name, found in self._found.items()
        }
        self.imported_at_start = {name: set(self._imported(tree.body)) - {name} for name, tree in self.parsed.items()}

    def _imported(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.files)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    below = f"{node.module}.{alias.name}"
                    if below in self.files or node.module in self.files:
                        yield below if below in self.files else node.module

    def importers(self) -> Mapping[str, set[str]]:
        found = defaultdict(set)
        for name, imported in self.imports.items():
            for other in imported:
                found[other].add(name)
        return found

    def hidden(self) -> list[str]:
        """MODULE:LINE of each import of an own module inside a function."""
        return sorted(
            f"{name}:{node.lineno}"
            for name, found in self._found.items()
            for node, is_hidden in found
            if is_hidden and any(self._imported([node]))
        )

    def cycles(self) -> list[list[str]]:
        """Import cycles, as the modules of each; imports inside functions do not count."""
        return _cycles(self.imported_at_start)

    def small_with_one_importer(self) -> list[str]:
        importers = self.importers()
        return [
            name
            for name, text in self.texts.items()
            if text.strip() and len(text.splitlines()) < SMALL_LINES and len(importers.get(name, ())) == 1
        ]


def measure(folder: Path) -> dict[str, float | str]:
    tree = Tree(folder)
    lines = sorted(len(text.splitlines()) for text in tree.texts.values() if text.strip())
    functions = sorted(_function_lengths(tree.parsed.values()))
    importers = tree.importers()
    filled = [name for name, text in tree.texts.items() if text.strip()]
    return {
        "folder": folder.name if folder.name != "src" else "azureml + runyard_sdk",
        "files": len(tree.files),
        "with code": len(lines),
        "lines": sum(lines),
        "median": median(lines),
        "p90": quantiles(lines, n=10)[-1],
        "longest": lines[-1],
        "function median": median(functions),
        "function p95": quantiles(functions, n=20)[-1],
        "hidden imports": len(tree.hidden()),
        "largest cycle": max(map(len, tree.cycles()), default=0),
        "one importer": sum(len(importers.get(name, ())) == 1 for name in filled),
        "small with one importer": len(tree.small_with_one_importer()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.code_measures", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=list(PACKAGES))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [measure(folder.resolve()) for folder in given.folders]
    if given.json:
        for row in rows:
            print(json.dumps(row))
        return
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        print(
            "| "
            + " | ".join(f"{value:g}" if isinstance(value, int | float) else value for value in row.values())
            + " |"
        )


def _import_statements(
    body: Iterable[ast.AST], *, is_hidden: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All imports below these statements, with whether each is inside a function. Expressions hold none."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, is_hidden
        within = is_hidden or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, ())
            if isinstance(inner, list):  # the body of a lambda is an expression
                yield from _import_statements(inner, is_hidden=within)


def _module(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _function_lengths(trees: Iterable[ast.AST]) -> Iterator[int]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                yield (node.end_lineno or node.lineno) - body[0].lineno + 1 if body else 0


def _cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module, by Kosaraju's two passes."""
    order, seen = [], set()
    for start in graph:
        stack = [(start, iter(graph[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            name, rest = stack[-1]
            unseen = next((other for other in rest if other not in seen), None)
            if unseen is None:
                order.append(name)
                stack.pop()
            else:
                seen.add(unseen)
                stack.append((unseen, iter(graph[unseen])))
    back = defaultdict(set)
    for name, others in graph.items():
        for other in others:
            back[other].add(name)
    found, placed = [], set()
    for name in reversed(order):
        component, todo = [], [name]
        while todo:
            one = todo.pop()
            if one not in placed:
                placed.add(one)
                component.append(one)
                todo += back[one] - placed
        if len(component) > 1:
            found.append(component)
    return found


if __name__ == "__main__":
    main()
