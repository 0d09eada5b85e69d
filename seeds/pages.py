"""Reading the fenced Python blocks of a seed page."""

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^\s*```\s*(\w*)\s*$")
OTHER_LANGUAGES = {"json"}
ESTIMATORS = {"Estimator", "TensorFlow", "PyTorch", "Chainer", "SKLearn"}


@dataclass(frozen=True)
class Block:
    number: int  # counted from 1 among the Python blocks of its page
    line: int  # of its first line of code in the page
    code: str

    @property
    def runs_inside_a_script(self) -> bool:
        """A block that imports a framework is meant for the training script, not for the client."""
        return re.search(r"^import tensorflow", self.code, re.MULTILINE) is not None


@dataclass(frozen=True)
class Page:
    name: str  # the number that the file's name begins with
    blocks: tuple[Block, ...]


def read_pages(folder: Path) -> list[Page]:
    """Read every `NNN_*.txt` of `folder`, in order; FileNotFoundError if there is none."""
    files = sorted(folder.glob("[0-9]*_*.txt"))
    if not files:
        raise FileNotFoundError(f"There are no seed pages (NNN_*.txt) in {folder}.")
    return [read_page(file.name.split("_")[0], file.read_text(encoding="utf-8")) for file in files]


def read_page(name: str, text: str) -> Page:
    """Take the Python blocks of a page, the untagged ones included: dedented, otherwise untouched."""
    python = [(line, code) for language, line, code in _fences(text) if language not in OTHER_LANGUAGES]
    return Page(name, tuple(Block(number, line, code) for number, (line, code) in enumerate(python, start=1)))


@dataclass(frozen=True)
class BuiltEstimator:
    name: str
    block: int
    submitted_in: int | None  # the block that submits it, or None where the page never does


def built_estimators(page: Page, same_as: dict[str, str]) -> list[BuiltEstimator]:
    """Follow each estimator that the page binds to a name up to its `submit(name)`, or until the name is bound again.

    `same_as` maps a name that the page never defines to the one it stands for.
    """
    waiting: dict[str, int] = {}
    done: list[BuiltEstimator] = []
    for number, statement in _client_statements(page):
        for submitted in _submitted(statement):
            name = same_as.get(submitted, submitted)
            if name in waiting:
                done.append(BuiltEstimator(name, waiting.pop(name), number))
        built = _estimator_bound_by(statement)
        if built and built in waiting:
            done.append(BuiltEstimator(built, waiting.pop(built), None))
        if built:
            waiting[built] = number
    return done + [BuiltEstimator(name, number, None) for name, number in waiting.items()]


def _fences(text: str) -> Iterator[tuple[str, int, str]]:
    opened: tuple[str, int] | None = None
    code: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if not fence and opened:
            code.append(line)
        elif fence and opened:
            yield opened[0], opened[1], textwrap.dedent("\n".join(code)) + "\n"
            opened, code = None, []
        elif fence:
            opened = (fence.group(1).lower(), number + 1)
    if opened:
        raise ValueError(f"The fence before line {opened[1]} is never closed.")


def _client_statements(page: Page) -> Iterator[tuple[int, ast.stmt]]:
    for block in page.blocks:
        if not block.runs_inside_a_script:
            for statement in ast.parse(block.code).body:
                yield block.number, statement


def _submitted(statement: ast.stmt) -> Sequence[str]:
    names = []
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(attr="submit"), args=[ast.Name(id=name), *_]):
                names.append(name)
    return names


def _estimator_bound_by(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=kind))) if kind in ESTIMATORS:
            return name
    return None
