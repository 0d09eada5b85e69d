"""Hostile text for a regular expression, made of the expression's own pieces.

An expression backtracks when one stretch of text can be read in several ways. Such text is a start that the
expression accepts, a piece of it repeated, and an end that it refuses. The pieces come from its parse tree.
"""

import random
import re
import re._constants as sre
import re._parser as parser
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

PUMPS = 6  # pieces that are made of one repeat, for each of its alternatives
ENDS = ("\x00", "\n\x00")
ALPHABET = "aA0_-.,=+/:@ \t\n\r\"'<>()[]{}#$%&!*\\;|~^?`é\x00"
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
Nodes = Sequence[tuple[Any, Any]]


def hostile_texts(pattern: "re.Pattern[Any]") -> list[tuple[str, str, str]]:
    """Return (start, pump, end) tuples, the same ones each time: a text of size n is start + pump * n + end."""
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    tree = list(parser.parse(text, pattern.flags & ~re.DEBUG))
    dice = random.Random(text)
    pairs = dict.fromkeys(_starts_and_pumps(tree, dice))
    return [(start, pump, end) for start, pump in pairs if pump for end in ENDS]


def possessive_groups(pattern: "re.Pattern[Any]") -> bool:
    """Tell whether it repeats anything but a single character possessively."""
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    return _has_possessive_group(list(parser.parse(text, pattern.flags & ~re.DEBUG)))


def _has_possessive_group(nodes: Nodes) -> bool:
    for kind, value in nodes:
        if kind is sre.POSSESSIVE_REPEAT and not _is_one_character(list(value[2])):
            return True
        below = [list(value[2])] if kind in REPEATS else _branches(kind, value)
        if any(map(_has_possessive_group, below)):
            return True
    return False


def _is_one_character(nodes: Nodes) -> bool:
    return len(nodes) == 1 and nodes[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)


def _starts_and_pumps(tree: Nodes, dice: random.Random) -> Iterator[tuple[str, str]]:
    wide = list(_wide_repeats(tree))
    if not wide:
        return  # the text that it can read is bounded
    for before, body, after in wide:
        for _ in range(PUMPS * _count_alternatives(body)):
            piece = _sample(body, dice)
            yield _sample(before, dice), piece
            # The repeat next to this one may read the same text.
            yield _sample(before, dice), piece + _sample(after, dice)
            # So may the next round of this one.
            yield _sample(before, dice), piece + _sample(body, dice)
    # A search begins anew at every place, and its first pieces may read far from each.
    for size in range(1, len(tree) + 1):
        yield from (("", _sample(tree[:size], dice)) for _ in range(3))
    first = _sample(tree[:1], dice)
    for char in dict.fromkeys(" \n\ta0.-_" + _literals(tree)[:20]):
        yield "", char
        yield first, char


def _wide_repeats(nodes: Nodes, before: Nodes = ()) -> Iterator[tuple[Nodes, Nodes, Nodes]]:
    """Yield (nodes that lead to it, its body, the node behind it) of each repeat that has no small bound."""
    for place, (kind, value) in enumerate(nodes):
        lead = [*before, *nodes[:place]]
        if kind in REPEATS:
            if value[1] > 256:
                yield lead, list(value[2]), nodes[place + 1 : place + 2]
            yield from _wide_repeats(list(value[2]), lead)
        for branch in _branches(kind, value):
            yield from _wide_repeats(branch, lead)


def _branches(kind: Any, value: Any) -> list[Nodes]:
    if kind is sre.SUBPATTERN:
        return [list(value[3])]
    if kind is sre.ATOMIC_GROUP:
        return [list(value)]
    if kind is sre.BRANCH:
        return [list(branch) for branch in value[1]]
    return []


def _count_alternatives(nodes: Nodes) -> int:
    count = 1
    for kind, value in nodes:
        below = [list(value[2])] if kind in REPEATS else _branches(kind, value)
        count += sum(map(_count_alternatives, below)) - 1 if below else 0
    return count


def _sample(nodes: Nodes, dice: random.Random) -> str:
    """Return text that the nodes accept one after the other; lookarounds, anchors and references are left out."""
    text = ""
    for kind, value in nodes:
        if kind is sre.LITERAL:
            text += chr(value)
        elif kind in (sre.IN, sre.NOT_LITERAL, sre.ANY):
            text += dice.choice(_members(kind, tuple(value) if kind is sre.IN else value))
        elif kind in REPEATS:
            least, most, body = value
            text += "".join(_sample(list(body), dice) for _ in range(min(most, dice.choice((least, least + 1, least)))))
        elif branches := _branches(kind, value):
            text += _sample(dice.choice(branches), dice)
    return text


@cache
def _members(kind: Any, value: Any) -> list[str]:
    """Return characters of different sorts that the class accepts."""
    items = {sre.ANY: [(sre.NEGATE, None)], sre.NOT_LITERAL: [(sre.NEGATE, None), (sre.LITERAL, value)]}.get(kind)
    items = list(value) if items is None else items
    negated = items[0][0] is sre.NEGATE
    named = "".join(chr(code) for kind, code in items if kind is sre.LITERAL)
    named += "".join(chr(code[0]) for kind, code in items if kind is sre.RANGE)
    return [char for char in named * (not negated) + ALPHABET if _is_member(char, items) is not negated] or ["x"]


def _is_member(char: str, items: Nodes) -> bool:
    return any(
        (kind is sre.LITERAL and ord(char) == value)
        or (kind is sre.RANGE and value[0] <= ord(char) <= value[1])
        or (kind is sre.CATEGORY and re.fullmatch(CATEGORIES[value], char) is not None)
        for kind, value in items
    )


def _literals(nodes: Nodes) -> str:
    found = ""
    for kind, value in nodes:
        if kind is sre.LITERAL:
            found += chr(value)
        elif kind is sre.IN:
            found += "".join(chr(code) for sort, code in value if sort is sre.LITERAL)
        elif kind in REPEATS:
            found += _literals(list(value[2]))
        else:
            found += "".join(_literals(branch) for branch in _branches(kind, value))
    return found
