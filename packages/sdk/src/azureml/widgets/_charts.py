"""Small drawings for a notebook: SVG of numbers alone, so that nothing of a user's can become markup."""

WIDTH, HEIGHT, MARGIN, LABELS = 600, 160, 6, 64
_SVG = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
        'style="background:none">{inside}</svg>')
_LABEL = '<text x="0" y="{y}" font-size="11" fill="currentColor" opacity="0.7">{text}</text>'


def colour(place):
    """Of the line of the child at this place of the order."""
    return "hsl({}, 65%, 50%)".format(210 + 36 * place)


def progress(seen):
    """A dot for each trial, a line for the best so far; nothing where there are not two of them."""
    columns, ends = seen["columns"], seen["range"]
    if ends is None or len(columns) < 2:
        return ""
    places = [_along(index, len(columns)) for index in range(len(columns))]
    dots = "".join(_bar(x, column["low"], column["high"], ends) for x, column in zip(places, columns)
                   if column["low"] is not None)
    line = [(x, column["best"]) for x, column in zip(places, columns) if column["best"] is not None]
    return _svg(dots + _line(line, ends, "hsl(150, 60%, 40%)", 2), ends)


def lines(series):
    """One line for each list of numbers; None is a gap."""
    finite = [value for one in series for value in one if value is not None]
    if len(finite) < 2:
        return ""
    ends, longest = (min(finite), max(finite)), max(map(len, series))
    drawn = [_line(part, ends, colour(place), 1.5) for place, one in reversed(list(enumerate(series)))
             for part in _unbroken(one, longest)]
    return _svg("".join(drawn), ends)


def _unbroken(values, longest):
    part = []
    for index, value in enumerate(list(values) + [None]):
        if value is not None:
            part.append((_along(index, longest), value))
        elif part:
            yield part
            part = []


def _line(points, ends, stroke, width):
    if len(points) == 1:
        (x, value), = points
        return '<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"/>'.format(x, _up(value, ends), stroke)
    text = " ".join("{:.1f},{:.1f}".format(x, _up(value, ends)) for x, value in points)
    return '<polyline points="{}" fill="none" stroke="{}" stroke-width="{}"/>'.format(text, stroke, width)


def _bar(x, low, high, ends):
    """From the lowest to the highest of the trials of one column: a dot where they are one."""
    return ('<line x1="{x:.1f}" x2="{x:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="hsl(215, 40%, 60%)" stroke-width="4" '
            'stroke-linecap="round"/>').format(_up(low, ends), _up(high, ends), x=x)


def _along(index, count):
    return WIDTH / 2 if count < 2 else LABELS + index * (WIDTH - LABELS - MARGIN) / (count - 1)


def _up(value, ends):
    low, high = ends
    if low == high:
        return HEIGHT / 2
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the distance of large floats may be infinite
    return HEIGHT - MARGIN - min(1, max(0, share)) * (HEIGHT - 2 * MARGIN)


def _svg(inside, ends):
    labels = [_LABEL.format(y=y, text="{:.5g}".format(value))
              for y, value in ((12, ends[1]), (HEIGHT - 2, ends[0]))]
    return _SVG.format(w=WIDTH, h=HEIGHT, inside=inside + "".join(labels))
