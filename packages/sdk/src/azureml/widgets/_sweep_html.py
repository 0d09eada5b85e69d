"""A sweep in a notebook: every text of a user's is escaped, and nothing needs a script."""

from azureml.widgets import _charts, _sweeps


def rows(view):
    """What stands above the drawings: (heading, HTML)."""
    from html import escape

    metric = view["sweep"]["primary_metric"]
    return [("Primary metric", escape("{} ({})".format(metric["name"], metric["goal"]))),
            ("Best so far", escape(_sweeps.best_in_words(view))),
            ("Children", escape(_sweeps.counts_in_words(view)))]


def below(view):
    """The drawings and the table of the best children."""
    from html import escape

    metric = escape(view["sweep"]["primary_metric"]["name"])
    series = [one.get("numbers") or [] for one in view["trials"]]
    drawings = [(metric + " of all children, and the best so far", _charts.progress(view["progress"])),
                (metric + " of the best children as they logged it", _charts.lines([one for one in series if one]))]
    drawn = "".join("<p><b>{}</b></p>{}".format(*drawing) for drawing in drawings if drawing[1])
    return drawn + _children(view, escape)


def _children(view, escape):
    headings, several = _sweeps.table(view)
    if not several:
        return ""
    head = "".join("<th>{}</th>".format(escape(name)) for name in headings)
    body = "".join(_row(cells, colour, escape) for cells, colour in zip(several, _coloured(view["trials"])))
    return "<table><tr>{}</tr>{}</table><p>{}</p>".format(head, body, _sweeps.others_in_words(view))


def _coloured(trials):
    """The colour of each one's line; None of those that have none."""
    place = 0
    for one in trials:
        yield _charts.colour(place) if one.get("numbers") else None
        place += 1 if one.get("numbers") else 0


def _row(cells, colour, escape):
    mark = '<span style="color:{}">&#9632;</span> '.format(colour) if colour else ""
    return "<tr><td>{}{}</td>{}</tr>".format(
        mark, escape(cells[0]), "".join("<td>{}</td>".format(escape(one)) for one in cells[1:]))
