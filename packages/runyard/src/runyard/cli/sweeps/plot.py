"""Text plot of a sweep: the best value of each trial, and the best so far."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runyard.runs.kinds.sweep.chart import share_of

HEIGHT = 10
MOST_WIDTH = 100


class PlotMarks(NamedTuple):
    trial: str
    best: str
    side: str


FINE = PlotMarks("·", "━", "│")
PLAIN = PlotMarks(".", "=", "|")


def draw_plot(progress: Mapping[str, Any], *, width: int, encoding: str | None) -> list[str]:
    """Lines of the plot, from `progress` as on the wire; empty for fewer than two trials."""
    columns, ends = progress["columns"], progress["range"]
    if ends is None or len(columns) < 2:
        return []
    low, high = ends
    labels = _labels(low, high)
    shown = _merged(columns, max(2, min(MOST_WIDTH, width - len(labels[0]) - 3)))
    marks = _marks(encoding)
    canvas = [[" "] * len(shown) for _ in range(HEIGHT)]
    for x, column in enumerate(shown):
        if column["low"] is not None:
            for row in range(_row(column["high"], low, high), _row(column["low"], low, high) + 1):
                canvas[row][x] = marks.trial
        if column["best"] is not None:
            canvas[_row(column["best"], low, high)][x] = marks.best
    lines = [f"{label} {marks.side}{''.join(row)}".rstrip() for label, row in zip(labels, canvas, strict=True)]
    legend = f"{marks.trial} trials {columns[0]['first']} to {columns[-1]['last']}   {marks.best} best so far"
    return [*lines, f"{' ' * len(labels[0])}  {legend}"]


def _marks(encoding: str | None) -> PlotMarks:
    try:
        "".join(FINE).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return FINE


def _labels(low: float, high: float) -> list[str]:
    """Labels of the rows: a number beside the first and the last."""
    numbers = [f"{high:.5g}", *[""] * (HEIGHT - 2), f"{low:.5g}"]
    width = max(map(len, numbers))
    return [number.rjust(width) for number in numbers]


def _merged(columns: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Merge columns until they fit; a merged one spans all values of its parts."""
    size = -(-len(columns) // most)
    return [_joined(columns[start : start + size]) for start in range(0, len(columns), size)]


def _joined(several: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    lows = [one["low"] for one in several if one["low"] is not None]
    highs = [one["high"] for one in several if one["high"] is not None]
    return {"low": min(lows, default=None), "high": max(highs, default=None), "best": several[-1]["best"]}


def _row(value: float, low: float, high: float) -> int:
    """Row of a value; 0 is the top. Values outside the range go to its edge."""
    return round((1 - share_of(value, low, high)) * (HEIGHT - 1))
