"""HTML table of a run in a notebook, refreshed by a thread until the run ends; for a sweep with SVG charts.

Everything that comes from a user is escaped; charts hold only numbers, and nothing needs a script.
"""

import sys

from azureml.widgets import run_details
from azureml.widgets.run_details import metric_text

WIDTH, HEIGHT, MARGIN, LABELS = 600, 160, 6, 64
_SVG = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
        'style="background:none">{inside}</svg>')
_LABEL = '<text x="0" y="{y}" font-size="11" fill="currentColor" opacity="0.7">{text}</text>'


def is_present():
    """Whether this is a notebook; IPython is only checked if it is already loaded."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def show(details):
    from IPython.display import HTML, display

    handle = display(HTML(run_table(details.get_widget_data())), display_id=True)
    import threading

    threading.Thread(target=_refresh, args=(details, handle, HTML), name="runyard-widget", daemon=True).start()


def run_table(data):
    """HTML table of the run; every value is escaped."""
    from html import escape

    rows = [("Run", '<a href="{}" target="_blank">{}</a>'.format(escape(data["portal_url"]), escape(data["run_id"]))),
            ("Experiment", escape(data["experiment"])), ("Status", escape(data["status"])),
            ("Target", escape(str(data["target"])))]
    if data["message"]:
        rows.append(("", escape(data["message"])))
    if data["error"]:
        rows.append(("Error", "<pre>{}</pre>".format(escape(data["error"].get("error", {}).get("message", "")))))
    below = ""
    if data["sweep"] is not None:
        rows.extend(sweep_rows(data["sweep"]))
        below = sweep_charts(data["sweep"])
    else:
        rows.extend((escape(metric["name"]), escape(metric_text(metric["values"]))) for metric in data["run_metrics"])
        rows.extend((escape(child["run_id"]), escape(child["status"])) for child in data["child_runs"])
    body = "".join("<tr><th>{}</th><td>{}</td></tr>".format(*row) for row in rows)
    return "<table>{}</table>{}".format(body, below)


def _refresh(details, handle, html):
    """Update on every change of the run, and every few seconds for metrics and children."""
    run = details._run
    client, version = run._client, 0
    while True:
        record = client.get(run._path + "/wait", version=version, timeout=5)
        version = record["version"]
        data = details.get_widget_data()
        handle.update(html(run_table(data)))
        if data["is_finished"]:
            return


def sweep_rows(view):
    """Rows above the charts: (heading, HTML)."""
    from html import escape

    metric = view["sweep"]["primary_metric"]
    return [("Primary metric", escape("{} ({})".format(metric["name"], metric["goal"]))),
            ("Best so far", escape(run_details.best_text(view))),
            ("Children", escape(run_details.counts_text(view)))]


def sweep_charts(view):
    """Charts and the table of the best children."""
    from html import escape

    metric = escape(view["sweep"]["primary_metric"]["name"])
    series = [one.get("numbers") or [] for one in view["trials"]]
    drawings = [(metric + " of all children, and the best so far", progress_chart(view["progress"])),
                (metric + " of the best children as they logged it", line_chart([one for one in series if one]))]
    drawn = "".join("<p><b>{}</b></p>{}".format(*drawing) for drawing in drawings if drawing[1])
    return drawn + _children(view, escape)


def _children(view, escape):
    headings, several = run_details.sweep_table(view)
    if not several:
        return ""
    head = "".join("<th>{}</th>".format(escape(name)) for name in headings)
    body = "".join(_row(cells, colour, escape) for cells, colour in zip(several, _coloured(view["trials"])))
    return "<table><tr>{}</tr>{}</table><p>{}</p>".format(head, body, run_details.others_text(view))


def _coloured(trials):
    """Line colour of each trial; None for a trial without a line."""
    place = 0
    for one in trials:
        yield colour(place) if one.get("numbers") else None
        place += 1 if one.get("numbers") else 0


def _row(cells, colour, escape):
    mark = '<span style="color:{}">&#9632;</span> '.format(colour) if colour else ""
    return "<tr><td>{}{}</td>{}</tr>".format(
        mark, escape(cells[0]), "".join("<td>{}</td>".format(escape(one)) for one in cells[1:]))


def colour(place):
    """Line colour of the child at this position."""
    return "hsl({}, 65%, 50%)".format(210 + 36 * place)


def progress_chart(seen):
    """SVG: a dot per trial and a line for the best so far; '' for fewer than two trials."""
    columns, ends = seen["columns"], seen["range"]
    if ends is None or len(columns) < 2:
        return ""
    places = [_along(index, len(columns)) for index in range(len(columns))]
    dots = "".join(_bar(x, column["low"], column["high"], ends) for x, column in zip(places, columns)
                   if column["low"] is not None)
    line = [(x, column["best"]) for x, column in zip(places, columns) if column["best"] is not None]
    return _svg(dots + _line(line, ends, "hsl(150, 60%, 40%)", 2), ends)


def line_chart(series):
    """SVG: one line per list of numbers; None is a gap."""
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
    """Line from the lowest to the highest trial of one column; a dot if they are equal."""
    return ('<line x1="{x:.1f}" x2="{x:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="hsl(215, 40%, 60%)" stroke-width="4" '
            'stroke-linecap="round"/>').format(_up(low, ends), _up(high, ends), x=x)


def _along(index, count):
    return WIDTH / 2 if count < 2 else LABELS + index * (WIDTH - LABELS - MARGIN) / (count - 1)


def _up(value, ends):
    low, high = ends
    if low == high:
        return HEIGHT / 2
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the difference of large floats may be infinite
    return HEIGHT - MARGIN - min(1, max(0, share)) * (HEIGHT - 2 * MARGIN)


def _svg(inside, ends):
    labels = [_LABEL.format(y=y, text="{:.5g}".format(value))
              for y, value in ((12, ends[1]), (HEIGHT - 2, ends[0]))]
    return _SVG.format(w=WIDTH, h=HEIGHT, inside=inside + "".join(labels))
