"""A table in a notebook, refreshed by a thread until the run has ended; of a sweep with drawings below it."""

import sys

from azureml.widgets._terminal import shown


def is_present():
    """Whether a notebook displays what we hand it; IPython is looked at only where somebody has loaded it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def show(details):
    from IPython.display import HTML, display

    handle = display(HTML(table(details.get_widget_data())), display_id=True)
    import threading

    threading.Thread(target=_refresh, args=(details, handle, HTML), name="runyard-widget", daemon=True).start()


def table(data):
    """The run as an HTML table; every value is escaped."""
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
        from azureml.widgets import _sweep_html

        rows.extend(_sweep_html.rows(data["sweep"]))
        below = _sweep_html.below(data["sweep"])
    else:
        rows.extend((escape(metric["name"]), escape(shown(metric["values"]))) for metric in data["run_metrics"])
        rows.extend((escape(child["run_id"]), escape(child["status"])) for child in data["child_runs"])
    body = "".join("<tr><th>{}</th><td>{}</td></tr>".format(*row) for row in rows)
    return "<table>{}</table>{}".format(body, below)


def _refresh(details, handle, html):
    """Woken by the service when the run changes, and every few seconds for its metrics and children."""
    run = details._run
    client, version = run._client, 0
    while True:
        record = client.get(run._path + "/wait", version=version, timeout=5)
        version = record["version"]
        data = details.get_widget_data()
        handle.update(html(table(data)))
        if data["is_finished"]:
            return
