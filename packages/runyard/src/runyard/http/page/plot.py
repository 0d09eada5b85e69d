import math
from collections.abc import Sequence

from runyard.http.page.markup import Markup, tag
from runyard.runs.kinds.sweep.progress import share_of

WIDTH, HEIGHT, MARGIN = 220, 40, 3
MOST_POINTS = 160


def plot(values: Sequence[float]) -> Markup:
    """SVG line of logged values; empty for fewer than two numbers. NaN and infinity leave a gap."""
    chosen = _thinned(values)
    finite = [value for value in chosen if math.isfinite(value)]
    if len(finite) < 2:
        return Markup("")
    low, high = min(finite), max(finite)
    lines, line = [], list[str]()
    for index, value in enumerate(chosen):
        if math.isfinite(value):
            line.append(f"{_along(index, len(chosen)):.1f},{_up(value, low, high):.1f}")
        elif line:
            lines.append(line)
            line = []
    drawn = [tag("polyline", points=" ".join(points)) for points in [*lines, line] if points]
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
        aria_label=f"from {finite[0]:.4g} to {finite[-1]:.4g}",
    )


def _thinned(values: Sequence[float]) -> list[float]:
    if len(values) <= MOST_POINTS:
        return [float(value) for value in values]
    step = (len(values) - 1) / (MOST_POINTS - 1)
    return [float(values[round(index * step)]) for index in range(MOST_POINTS)]


def _along(index: int, count: int) -> float:
    return MARGIN + index * (WIDTH - 2 * MARGIN) / (count - 1)


def _up(value: float, low: float, high: float) -> float:
    return HEIGHT - MARGIN - share_of(value, low, high) * (HEIGHT - 2 * MARGIN)
