"""How a sweep has come along, small enough to draw however many children it has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.model.sweeps import Goal, RankedTrial

MOST_COLUMNS = 120
USUAL_SHARE = 0.9
"""What part of the trials the range of a drawing holds at least, where the rest lies far away."""
FAR = 4
"""A worst trial that lies this many times further from the best than the usual ones is left out of the range."""


@dataclass(frozen=True)
class Column:
    """Trials that follow one another. None stands for no number."""

    first: int
    last: int
    low: float | None
    high: float | None
    best: float | None
    """The best of all trials up to the last of these."""


@dataclass(frozen=True)
class Progress:
    columns: Sequence[Column]
    range: tuple[float, float] | None
    """From where to where to draw: a few that went astray do not flatten all others. None without any number."""


def progress_of(trials: Sequence[RankedTrial], goal: Goal) -> Progress:
    """Of the trials of one sweep, in any order. Those at the end that have no number yet are left out."""
    ordered = sorted(trials, key=lambda trial: trial.number)
    while ordered and ordered[-1].best is None:
        ordered.pop()
    size = max(1, math.ceil(len(ordered) / MOST_COLUMNS))
    columns, best = list[Column](), None
    for start in range(0, len(ordered), size):
        several = ordered[start : start + size]
        values = [trial.best for trial in several if trial.best is not None]
        best = better_of([*values, *([] if best is None else [best])], goal)
        low, high = min(values, default=None), max(values, default=None)
        columns.append(Column(several[0].number, several[-1].number, low, high, best))
    return Progress(columns, _range([trial.best for trial in ordered if trial.best is not None], goal))


def better_of(values: Sequence[float], goal: Goal) -> float | None:
    return (max if goal is Goal.MAXIMIZE else min)(values, default=None)


def _range(values: Sequence[float], goal: Goal) -> tuple[float, float] | None:
    if not values:
        return None
    best_first = sorted(values, reverse=goal is Goal.MAXIMIZE)
    best, worst = best_first[0], best_first[-1]
    usual = best_first[max(0, math.ceil(USUAL_SHARE * len(best_first)) - 1)]
    # Halves, here and below: the distance of two large floats may be infinite.
    is_far = abs(worst / 2 - best / 2) > FAR * abs(usual / 2 - best / 2) > 0
    end = usual if is_far else worst
    return min(best, end), max(best, end)


def share_of(value: float, low: float, high: float) -> float:
    """How far up it lies between the two, from 0 to 1: the middle where they are one, an edge for what lies outside."""
    if high == low:
        return 0.5
    return min(1.0, max(0.0, (value / 2 - low / 2) / (high / 2 - low / 2)))
