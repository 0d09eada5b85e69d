import math
from collections.abc import Sequence

from runyard.runs.kinds.sweep.chart import SweepChart, share_of
from runyard.server.page.markup import Markup, tag

WIDTH, HEIGHT, MARGIN = 220, 40, 3
MAX_POINTS = 160


def metric_plot(values: Sequence[float]) -> Markup:
    """SVG line of logged values; empty for fewer than two numbers. NaN and infinity leave a gap."""
    chosen = _sampled(values)
    finite = [value for value in chosen if math.isfinite(value)]
    if len(finite) < 2:
        return Markup("")
    low, high = min(finite), max(finite)
    lines, line = [], list[str]()
    for index, value in enumerate(chosen):
        if math.isfinite(value):
            line.append(f"{_x(index, len(chosen)):.1f},{_y(value, low, high):.1f}")
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


def _sampled(values: Sequence[float]) -> list[float]:
    if len(values) <= MAX_POINTS:
        return [float(value) for value in values]
    step = (len(values) - 1) / (MAX_POINTS - 1)
    return [float(values[round(index * step)]) for index in range(MAX_POINTS)]


def _x(index: int, count: int) -> float:
    return MARGIN + index * (WIDTH - 2 * MARGIN) / (count - 1)


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - MARGIN - share_of(value, low, high) * (HEIGHT - 2 * MARGIN)


SWEEP_WIDTH, SWEEP_HEIGHT, SWEEP_MARGIN, SWEEP_LABELS = 640, 180, 8, 64


def sweep_plot(progress: SweepChart) -> Markup:
    """SVG of a sweep: a dot per trial in the order of sampling (a bar where several share a column), and a line for
    the best so far. Empty for fewer than two trials."""
    columns = progress.columns
    if progress.range is None or len(columns) < 2:
        return Markup("")
    low, high = progress.range
    step = (SWEEP_WIDTH - SWEEP_LABELS - SWEEP_MARGIN) / (len(columns) - 1)
    xs = [SWEEP_LABELS + index * step for index in range(len(columns))]
    bars = [
        _sweep_bar(x, _sweep_y(column.low, low, high), _sweep_y(column.high, low, high))
        for x, column in zip(xs, columns, strict=True)
        if column.low is not None and column.high is not None
    ]
    best = [
        f"{x:.1f},{_sweep_y(column.best, low, high):.1f}"
        for x, column in zip(xs, columns, strict=True)
        if column.best is not None
    ]
    return tag(
        "svg",
        *bars,
        tag("polyline", points=" ".join(best), class_="best"),
        tag("text", f"{high:.5g}", x=0, y=14),
        tag("text", f"{low:.5g}", x=0, y=SWEEP_HEIGHT - 4),
        viewBox=f"0 0 {SWEEP_WIDTH} {SWEEP_HEIGHT}",
        class_="sweep",
        role="img",
        aria_label=f"trials from {low:.5g} to {high:.5g}, and the best so far",
    )


def _sweep_bar(x: float, lower: float, upper: float) -> Markup:
    return tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{lower:.1f}", y2=f"{upper:.1f}")


def _sweep_y(value: float, low: float, high: float) -> float:
    return SWEEP_HEIGHT - SWEEP_MARGIN - share_of(value, low, high) * (SWEEP_HEIGHT - 2 * SWEEP_MARGIN)
