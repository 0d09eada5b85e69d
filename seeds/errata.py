"""The names that a page uses and never defines, supplied at the moment they are asked for."""

import builtins
import importlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("errata.toml")


@dataclass(frozen=True)
class Erratum:
    name: str
    pages: tuple[str, ...]
    reason: str
    module: str | None  # import the name from here, or
    expression: str | None  # evaluate this among the page's names


def read_errata(page: str, file: Path = FILE) -> dict[str, Erratum]:
    """Return the errata of one page by name."""
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["name"]
    errata = (Erratum(row["name"], tuple(row["pages"]), row["reason"], row.get("from"), row.get("is")) for row in rows)
    return {erratum.name: erratum for erratum in errata if page in erratum.pages}


def aliases(errata: dict[str, Erratum]) -> dict[str, str]:
    """Map each name that merely stands for another name of the page to that name."""
    return {
        name: erratum.expression
        for name, erratum in errata.items()
        if erratum.expression and erratum.expression.isidentifier()
    }


class Namespace(dict[str, Any]):
    """A page's names. One that is missing is looked up among the errata, so a later definition by the page wins."""

    def __init__(self, errata: dict[str, Erratum], **given: Any) -> None:
        super().__init__(given, __builtins__=builtins, __name__="__main__")
        self._errata = errata
        self._given = given

    def __missing__(self, name: str) -> Any:
        erratum = self._errata.get(name)
        if erratum is None:
            raise KeyError(name)
        if erratum.module:
            return getattr(importlib.import_module(erratum.module), name)
        assert erratum.expression is not None
        return eval(erratum.expression, self._given, self)
