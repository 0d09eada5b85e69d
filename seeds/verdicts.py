"""Comparing what happened with the list of blocks that are not yet expected to pass."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seeds.errata import aliases, read_errata
from seeds.pages import Page, built_estimators

FILE = Path(__file__).with_name("not_yet.toml")


@dataclass(frozen=True)
class NotYet:
    part: int
    what: str

    def __str__(self) -> str:
        return f"not yet: {self.what} (part {self.part})"


@dataclass(frozen=True)
class Result:
    """What the page's process says of one block. An empty problem means that it did all it should."""

    block: int
    problem: str
    seconds: float


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


def judge(page: Page, results: Sequence[Result], why_missing: str) -> list[Outcome]:
    """Give each block its outcome; one without a result has failed.

    A block that makes an estimator has passed once that estimator's runs have, wherever the page submits it.
    """
    by_block = {block.number: Result(block.number, why_missing, 0.0) for block in page.blocks}
    by_block |= {result.block: result for result in results}
    problems = {number: result.problem for number, result in by_block.items()}
    for estimator in built_estimators(page, aliases(read_errata(page.name))):
        submitted_in = estimator.submitted_in
        if submitted_in is not None and by_block[submitted_in].problem:
            problems[estimator.block] = (
                problems[estimator.block] or f"What it makes cannot run: see block {submitted_in}."
            )
    not_yet = read_not_yet()
    return [
        Outcome(page.name, number, result.seconds, problems[number], not_yet.get((page.name, number)))
        for number, result in by_block.items()
    ]


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
