"""Comparing what happened with the list of blocks that are not yet expected to pass."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("not_yet.toml")


@dataclass(frozen=True)
class NotYet:
    part: int
    what: str

    def __str__(self) -> str:
        return f"not yet: {self.what} (part {self.part})"


@dataclass(frozen=True)
class Outcome:
    """What came of one block. An empty problem means that it did all it should."""

    page: str
    block: int
    seconds: float
    problem: str
    not_yet: NotYet | None

    @property
    def passed(self) -> bool:
        return not self.problem

    @property
    def is_as_listed(self) -> bool:
        return self.passed == (self.not_yet is None)

    @property
    def verdict(self) -> str:
        if self.passed:
            return "pass" if self.not_yet is None else f"PASS, yet listed as {self.not_yet}: take it off not_yet.toml"
        return str(self.not_yet) if self.not_yet else f"FAIL  {self.problem.splitlines()[0][:200]}"


def read_not_yet(file: Path = FILE) -> dict[tuple[str, int], NotYet]:
    """Return the listed blocks by page and number."""
    listed: dict[tuple[str, int], NotYet] = {}
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["part"]:
        for page, blocks in row["blocks"].items():
            listed |= {(page, block): NotYet(row["part"], row["what"]) for block in blocks}
    return listed


def table(outcomes: Sequence[Outcome]) -> str:
    """One line a block: page, block, seconds, verdict."""
    lines = [f"{'page':<6}{'block':>5}{'seconds':>9}  verdict"]
    lines += [f"{o.page:<6}{o.block:>5}{o.seconds:>9.1f}  {o.verdict}" for o in outcomes]
    return "\n".join(lines)


def summary(outcomes: Sequence[Outcome]) -> str:
    return f"seeds: {sum(o.passed for o in outcomes)} of {len(outcomes)} blocks pass"
