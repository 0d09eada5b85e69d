"""Paths of a datastore that may hold `*`, `?`, `[]` and `**`."""

import re
from collections.abc import Callable

GLOB_CHARACTERS = frozenset("*?[")
ANY_DEPTH = "**"


def is_glob(pattern: str) -> bool:
    return bool(GLOB_CHARACTERS & set(pattern))


def fixed_part(pattern: str) -> str:
    """The folder of a datastore path before its first glob segment; the whole path when it has none."""
    kept: list[str] = []
    for segment in pattern.strip("/").split("/"):
        if is_glob(segment):
            break
        kept.append(segment)
    return "/".join(kept)


def literal_prefix(pattern: str) -> str:
    """What every path that the pattern means begins with: as much as can be told before the first glob character."""
    at = next((at for at, character in enumerate(pattern) if character in GLOB_CHARACTERS), len(pattern))
    return pattern[:at].lstrip("/")


def whole_folder(pattern: str) -> str | None:
    """The folder that the pattern means with all that is in it; None where it leaves something out."""
    pattern = pattern.strip("/")
    while pattern == ANY_DEPTH or pattern.endswith("/" + ANY_DEPTH):
        pattern = pattern[: -len(ANY_DEPTH)].rstrip("/")
    return None if is_glob(pattern) else pattern


def matcher(pattern: str) -> Callable[[str], object]:
    """Tells whether a path is one that the pattern means; a folder means all files below it."""
    pattern = pattern.strip("/")
    if not pattern:
        return lambda name: True
    segments, text = pattern.split("/"), ""
    for segment in segments[:-1]:
        text += "(?:.*/)?" if segment == ANY_DEPTH else _segment(segment) + "/"
    text += ".*" if segments[-1] == ANY_DEPTH else _segment(segments[-1]) + "(?:/.*)?"
    return re.compile(text, re.DOTALL).fullmatch


def _segment(segment: str) -> str:
    """One segment as a regular expression; its stars stop at slashes."""
    text, at = "", 0
    while at < len(segment):
        character, end = segment[at], segment.find("]", at + 2)
        if character == "[" and end != -1:
            text += _choice(segment[at + 1 : end])
            at = end
        else:
            text += {"*": "[^/]*", "?": "[^/]"}.get(character) or re.escape(character)
        at += 1
    return text


def _choice(inside: str) -> str:
    is_not, inside = inside[0] in "!^", inside.lstrip("!^") if inside[0] in "!^" else inside
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside)
    return f"(?!/)[{'^' if is_not else ''}{escaped}]" if escaped else re.escape(inside)
