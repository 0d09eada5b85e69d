"""No text makes a regular expression of the packages take more than linear time.

Costs are processor time of this thread, compared with a known quadratic expression on the same machine: a busy
machine makes both slower.
"""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import pytest

from azureml.data._partitions import PartitionFormat
from runyard.core.errors import InvalidArgument
from runyard.core.path_patterns import _segment, matcher
from runyard.environments.containers.failures import _WORDS
from runyard.environments.failures import FAILURE_PATTERNS
from runyard.environments.planning.packages import LONGEST_LINE, PackageRequests, add_conda, add_pip
from runyard.node.containers.task_container import _NEXT_STEPS
from runyard_sdk import ignore

from .found import Expression, expressions
from .hostile import hostile_texts, possessive_groups

FEW, SOME, MANY = 32, 512, 16_384
QUICK = 48  # linear costs grow 16 times from FEW to SOME, quadratic ones 256 times
LIMIT_SECONDS = 0.5  # of processor time; the quadratic expression takes about a fifth of it for MANY
QUADRATIC = re.compile(r"\[[^\]]*\]")
GLOBS = ("*a*a*a*b", "**/*.txt", "a/**/b/**/c", "[ab]*[!c]?", "data/**", "*.*.*")

# Expressions of text that only running code knows, by file and function, and the method that is called on them.
BUILT: dict[str, tuple[str, list["re.Pattern[Any]"]]] = {
    "runyard/environments/containers/failures.py:": ("search", list(_WORDS.values())),
    "runyard/environments/failures.py:_patterns": (
        "search",
        [pattern for row in FAILURE_PATTERNS for pattern in (row.pattern, row.later) if pattern],
    ),
    "runyard/environments/conda/program.py:_is_named": (
        "search",
        [re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", re.I) for name in ("a", "a-a", "numpy.base")],
    ),
    "runyard/node/containers/task_container.py:explain_refusal": (
        "search",
        [re.compile(words) for words, _hint in _NEXT_STEPS],
    ),
    "runyard/core/path_patterns.py:matcher": (
        "fullmatch",
        [*(re.compile(_segment(glob), re.DOTALL) for glob in GLOBS), *(matcher(g).__self__ for g in GLOBS[:2])],
    ),
    "azureml/data/_partitions.py:__init__": (
        "match",
        [
            PartitionFormat(text)._pattern
            for text in ("/{a}/{b}.csv", "/{a}-{b}-{c}.csv", "{a}*{b}*_{c}", "/{day:yyyy/MM/dd}/*/x*{a}")
        ],
    ),
    "runyard_sdk/ignore.py:_compiled": ("match", [ignore._compiled(glob)[0].__self__ for glob in GLOBS]),
}


class TooSlow(Exception):
    pass


@cache
def all_found() -> list[Expression]:
    """Read when a test runs: every process that shares the tests collects them all, and few run these."""
    return expressions()


def test_no_text_takes_more_than_linear_time() -> None:
    slow = [problem for found in all_found() for problem in _slow(found)]
    assert not slow, "\n".join(slow)


def _slow(found: Expression) -> Iterator[str]:
    built, patterns = BUILT.get(found.place, ("", [])) if not found.patterns else ("", found.patterns)
    where = f"{found.place}:{found.line}"
    if not patterns:
        yield f"{where}: `{found.source}` is known to running code only: name what it makes in BUILT."
    for pattern in patterns:
        for method in [built] if built else sorted(found.methods):
            for start, pump, end in hostile_texts(pattern):
                grown = _growth(pattern, method, lambda n: start + pump * n + end)  # noqa: B023 - used at once
                if grown:
                    yield f"{where}: {pattern.pattern!r}.{method}({start!r} + {pump!r} * n + {end!r}): {grown}"


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11 before 3.11.5, Debian 12's for one, matches such groups wrongly."""
    possessive = [
        f"{found.place}:{found.line}: {pattern.pattern!r}"
        for found in all_found()
        for pattern in found.patterns or BUILT[found.place][1]
        if possessive_groups(pattern)
    ]
    assert not possessive, "\n".join(possessive)


@pytest.mark.parametrize(
    ("text", "has_one"), [(r"a++b?+[cd]*+\s{2,3}+", False), (r"(?:ab)++", True), (r"x(a(?:b|c[de])?+)", True)]
)
def test_the_test_finds_possessive_groups(text: str, has_one: bool) -> None:
    assert possessive_groups(re.compile(text)) == has_one


def test_a_table_entry_belongs_to_an_expression() -> None:
    assert set(BUILT) <= {found.place for found in all_found() if not found.patterns}


@pytest.mark.parametrize(
    "text", [r"(a|a)*b", r"(\s*a\s*)*b", r"^\s*FROM", r"x+y+z", r"[a-z]+://", r"a.*b.*c", r"(?:(?:==)\s*1\s*,?\s*)*\)"]
)
def test_the_test_finds_slow_expressions(text: str) -> None:
    pattern = re.compile(text, re.MULTILINE)
    assert any(_growth(pattern, "search", lambda n: s + p * n + e) for s, p, e in hostile_texts(pattern))  # noqa: B023


@pytest.mark.parametrize(
    "line",
    [
        "a" + "== 1 " * 22 + "$",
        "a" + " " * 16_000 + "$",
        "a" + ".a" * 8_000 + "$",
        "a;" + "=" * 200 + "$",
        "a;" + "<===" * 100 + "$",
    ],
    ids=lambda line: line[:8],
)
def test_a_hostile_requirement_is_refused_at_once(line: str) -> None:
    with _limited(), pytest.raises(InvalidArgument):
        add_pip(PackageRequests(), [line])


@pytest.mark.parametrize(("add", "name"), [(add_pip, "pip_packages"), (add_conda, "conda_packages")])
def test_a_requirement_has_a_longest_length(add: Callable[[PackageRequests, list[str]], None], name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} holds a line of {LONGEST_LINE + 1} characters"):
        add(PackageRequests(), ["a" * (LONGEST_LINE + 1)])


def _growth(pattern: "re.Pattern[Any]", method: str, text: Callable[[int], str]) -> str:
    """Say how the cost grows where it grows faster than the text; '' where it does not."""
    try:
        few = _cost(pattern, method, text(FEW))
        if _cost(pattern, method, text(SOME)) < few * QUICK:
            return ""  # most texts end here
        fourth = min(_cost(pattern, method, text(MANY // 4)) for _ in range(3))
        whole = min(_cost(pattern, method, text(MANY)) for _ in range(3))
    except TooSlow:
        return f"more than {LIMIT_SECONDS} s"
    is_slow = whole > _quadratic(MANY) / 8 and whole > 8 * fourth
    return f"{fourth:.4f} s for {MANY // 4}, {whole:.4f} s for {MANY}" if is_slow else ""


@cache
def _quadratic(size: int) -> float:
    return min(_cost(QUADRATIC, "search", "[" * size) for _ in range(5))


def _cost(pattern: "re.Pattern[Any]", method: str, text: str) -> float:
    subject: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    call = {
        "sub": lambda: pattern.sub(lambda found: found[0], subject),
        "subn": lambda: pattern.subn(lambda found: found[0], subject),
        "finditer": lambda: list(pattern.finditer(subject)),
    }.get(method) or (lambda: getattr(pattern, method)(subject))
    with _limited():
        begun = time.thread_time()
        call()
        return time.thread_time() - begun


@contextmanager
def _limited() -> Iterator[None]:
    """End a match that has taken LIMIT_SECONDS of processor time: the engine of `re` looks for signals."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
