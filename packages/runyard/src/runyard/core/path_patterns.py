"""Glob patterns of datastore paths: `*`, `?`, `[]` and `**`."""

import re
from collections.abc import Callable
from functools import lru_cache

from runyard.core.errors import InvalidArgument

GLOB_CHARACTERS = frozenset("*?[")
ANY_DEPTH = "**"


def is_glob(pattern: str) -> bool:
    return bool(GLOB_CHARACTERS & set(pattern))


@lru_cache(64)  # called for every file of a listing
def fixed_part(pattern: str) -> str:
    """Folder before the first glob segment of a pattern; the whole pattern if it has none."""
    kept: list[str] = []
    for segment in pattern.strip("/").split("/"):
        if is_glob(segment):
            break
        kept.append(segment)
    return "/".join(kept)


def literal_prefix(pattern: str) -> str:
    """Longest prefix that all matching paths share: the text before the first glob character."""
    at = next((at for at, character in enumerate(pattern) if character in GLOB_CHARACTERS), len(pattern))
    return pattern[:at].lstrip("/")


def whole_folder(pattern: str) -> str | None:
    """Folder whose every file the pattern matches; None if it leaves some out."""
    pattern = pattern.strip("/")
    while pattern == ANY_DEPTH or pattern.endswith("/" + ANY_DEPTH):
        pattern = pattern[: -len(ANY_DEPTH)].rstrip("/")
    return None if is_glob(pattern) else pattern


def matcher(pattern: str) -> Callable[[str], object]:
    """Compile a pattern to a test of paths. A folder matches all files below it.

    Runs in linear time for every pattern (no ReDoS). Raises InvalidArgument for an invalid '[]'.
    """
    segments = [part for part in pattern.split("/") if part not in ("", ".")]
    if not segments:
        return lambda name: True
    tests = [None if segment == ANY_DEPTH else _segment(segment) for segment in segments]
    try:
        if tests.count(None) <= 1:
            return re.compile(_whole(tests), re.DOTALL).fullmatch
        compiled = [None if test is None else re.compile(test, re.DOTALL) for test in tests]
    except re.error as error:
        raise InvalidArgument(
            f"path {pattern[:200]!r} is not a pattern: {error.msg}.", hint="Check its '[]'."
        ) from None
    return lambda name: _descends(compiled, name.split("/"))


def _whole(tests: list[str | None]) -> str:
    """One regular expression for all segments: fast, but with two '**' it could take exponential time."""
    text = "".join("(?:.*/)?" if test is None else test + "/" for test in tests[:-1])
    return text + (".*" if tests[-1] is None else tests[-1] + "(?:/.*)?")


def _descends(tests: list[re.Pattern[str] | None], names: list[str]) -> bool:
    """Match segment by segment. At a mismatch the last '**' takes one more. Files below a match are matched too."""
    at = test = 0
    retry_at, retry_test = -1, -1
    while test < len(tests):
        wanted = tests[test]
        if wanted is None:
            test += 1
            retry_at, retry_test = at, test
            if test == len(tests):
                return at < len(names)
        elif at < len(names) and wanted.fullmatch(names[at]):
            at, test = at + 1, test + 1
        elif 0 <= retry_at < len(names):
            retry_at += 1
            at, test = retry_at, retry_test
        else:
            return False
    return True


def _segment(segment: str) -> str:
    """Regular expression of one segment; stars stop at slashes.

    The text after a star is searched once, from the left, in an atomic group: that finds a match if there is one,
    without backtracking.
    """
    pieces, at = [""], 0
    while at < len(segment):
        character, end = segment[at], segment.find("]", at + 2)
        if character == "[" and end != -1:
            pieces[-1] += _choice(segment[at + 1 : end])
            at = end
        elif character == "*":
            pieces.append("")
        else:
            pieces[-1] += "[^/]" if character == "?" else re.escape(character)
        at += 1
    first, *rest = pieces
    if not rest:
        return first
    return first + "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece) + f"[^/]*{rest[-1]}"


def _choice(inside: str) -> str:
    is_not = inside[0] in "!^"
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[1:] if is_not else inside)
    return f"(?!/)[{'^' if is_not else ''}{escaped}]"
