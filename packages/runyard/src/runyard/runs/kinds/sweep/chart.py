"""Data of the chart of a sweep, bounded in size for any number of trials."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.core.records.sweeps import Goal, RankedTrial

MOST_COLUMNS = 120
USUAL_SHARE = 0.9
"""Share of the trials that the range of the chart must hold; outliers beyond it may be cut off."""
FAR = 4
"""The worst trial is cut off if it is this many times further from the best than the usual ones."""


@dataclass(frozen=True)
class ChartColumn:
    """Consecutive trials. None: no number."""

    first: int
    last: int
    low: float | None
    high: float | None
    best: float | None
    """Best of all trials up to `last`."""


@dataclass(frozen=True)
class SweepChart:
    columns: Sequence[ChartColumn]
    range: tuple[float, float] | None
    """Lowest and highest value to draw, without outliers; None without any number."""


def sweep_chart(trials: Sequence[RankedTrial], goal: Goal) -> SweepChart:
    """Chart of the trials of one sweep, in any order. Trials at the end without a number are left out."""
    ordered = sorted(trials, key=lambda trial: trial.number)
    while ordered and ordered[-1].best is None:
        ordered.pop()
    size = max(1, math.ceil(len(ordered) / MOST_COLUMNS))
    columns, best = list[ChartColumn](), None
    for start in range(0, len(ordered), size):
        several = ordered[start : start + size]
        values = [trial.best for trial in several if trial.best is not None]
        best = better_of([*values, *([] if best is None else [best])], goal)
        low, high = min(values, default=None), max(values, default=None)
        columns.append(ChartColumn(several[0].number, several[-1].number, low, high, best))
    return SweepChart(columns, _range([trial.best for trial in ordered if trial.best is not None], goal))


def better_of(values: Sequence[float], goal: Goal) -> float | None:
    return (max if goal is Goal.MAXIMIZE else min)(values, default=None)


def _range(values: Sequence[float], goal: Goal) -> tuple[float, float] | None:
    if not values:
        return None
    best_first = sorted(values, reverse=goal is Goal.MAXIMIZE)
    best, worst = best_first[0], best_first[-1]
    usual = best_first[max(0, math.ceil(USUAL_SHARE * len(best_first)) - 1)]
    # Halves, here and below: the difference of two large floats may be infinite.
    is_far = abs(worst / 2 - best / 2) > FAR * abs(usual / 2 - best / 2) > 0
    end = usual if is_far else worst
    return min(best, end), max(best, end)


def share_of(value: float, low: float, high: float) -> float:
    """Position of `value` between the two, from 0 to 1; 0.5 if they are equal, clipped outside."""
    if high == low:
        return 0.5
    return min(1.0, max(0.0, (value / 2 - low / 2) / (high / 2 - low / 2)))
