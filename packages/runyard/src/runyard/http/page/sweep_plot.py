from runyard.http.page.markup import Markup, tag
from runyard.runs.kinds.sweep.progress import Progress, share_of

WIDTH, HEIGHT, MARGIN, LABELS = 640, 180, 8, 64


def sweep_plot(progress: Progress) -> Markup:
    """SVG of a sweep: a dot per trial in the order of sampling (a bar where several share a column), and a line for
    the best so far. Empty for fewer than two trials."""
    columns = progress.columns
    if progress.range is None or len(columns) < 2:
        return Markup("")
    low, high = progress.range
    step = (WIDTH - LABELS - MARGIN) / (len(columns) - 1)
    xs = [LABELS + index * step for index in range(len(columns))]
    bars = [
        _bar(x, _up(column.low, low, high), _up(column.high, low, high))
        for x, column in zip(xs, columns, strict=True)
        if column.low is not None and column.high is not None
    ]
    best = [
        f"{x:.1f},{_up(column.best, low, high):.1f}"
        for x, column in zip(xs, columns, strict=True)
        if column.best is not None
    ]
    return tag(
        "svg",
        *bars,
        tag("polyline", points=" ".join(best), class_="best"),
        tag("text", f"{high:.5g}", x=0, y=14),
        tag("text", f"{low:.5g}", x=0, y=HEIGHT - 4),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="sweep",
        role="img",
        aria_label=f"trials from {low:.5g} to {high:.5g}, and the best so far",
    )


def _bar(x: float, lower: float, upper: float) -> Markup:
    return tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{lower:.1f}", y2=f"{upper:.1f}")


def _up(value: float, low: float, high: float) -> float:
    return HEIGHT - MARGIN - share_of(value, low, high) * (HEIGHT - 2 * MARGIN)
