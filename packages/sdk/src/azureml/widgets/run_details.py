import json
import sys

from azureml.exceptions import UserErrorException
from runyard_sdk.follow import follow as follow_run

_MOST_METRICS = 20
_TERMINAL = ("Completed", "Failed", "Canceled")
_SWEEP_TYPE = "hyperdrive"
_MOST_CHILDREN = 20
_MOST_LINES = 10
_LONGEST_CELL = 60


class RunDetails:
    """View of a run. `show()` returns at once in a notebook and prints one summary elsewhere."""

    def __new__(cls, run_instance):
        from azureml.core.run import Run

        if not isinstance(run_instance, Run):
            raise UserErrorException("run_instance must be a Run, got {}.".format(type(run_instance).__name__))
        return super().__new__(cls)

    def __init__(self, run_instance):
        self._run = run_instance

    def show(self, render_lib=None, widget_settings=None):
        """Show the run: a refreshing table in a notebook, live lines in a terminal, one summary elsewhere."""
        from azureml.widgets import _notebook

        if _notebook.is_present():
            _notebook.show(self)
        elif sys.stdout.isatty():
            _print_events(self)
        else:
            _print_summary(self)

    def get_widget_data(self, widget_settings=None):
        """Shown data as a dict: status, run_id, run_properties, child_runs, run_metrics, run_logs, error.

        For a sweep `child_runs` are its best children and `run_metrics` the primary metric of the best.
        """
        run = self._run
        details = run.get_details()
        view = sweep_view(run) if _is_sweep(run) else None
        return {
            "status": details["status"], "workspace": run.experiment.workspace.name, "experiment": run.experiment.name,
            "run_id": run.id, "run_number": run.number, "run_type": run.type, "target": details["target"],
            "portal_url": run.get_portal_url(), "run_properties": _properties(details, run),
            "child_runs": _child_runs(run) if view is None else _sweep_child_runs(view),
            "run_metrics": _run_metrics(run) if view is None else _sweep_run_metrics(view), "sweep": view,
            "run_logs": sorted(details["logFiles"]), "message": run.get_detailed_status()["details"],
            "error": details.get("error"), "is_finished": details["status"] in _TERMINAL}


def _child_runs(run):
    return [{"run_id": child.id, "status": child.status} for child in run.get_children()]


def _run_metrics(run):
    return [{"name": name, "run_id": run.id, "values": value if isinstance(value, list) else [value]}
            for name, value in sorted(run.get_metrics().items())][:_MOST_METRICS]


def _properties(details, run):
    return {"run_id": run.id, "run_number": run.number, "created_utc": run._record.get("created_at"),
            "start_time": details.get("startTimeUtc"), "end_time": details.get("endTimeUtc"),
            "properties": details["properties"], "tags": dict(run._record.get("tags") or {}),
            "script_name": _script(details), "arguments": " ".join(_arguments(details))}


def _script(details):
    return details.get("runDefinition", {}).get("script")


def _arguments(details):
    return [str(item) for item in details.get("runDefinition", {}).get("arguments") or []]


def _print_events(details):
    """Print status changes and log lines until the run ends; Ctrl-C stops printing, not the run."""
    run = details._run
    print("Run {} ({})".format(run.id, run.get_portal_url()))
    try:
        for event in follow_run(run._client, run.id):
            if event[0] == "status":
                print("-- {} {}".format(event[1], event[2] or "").rstrip())
            elif event[0] == "log":
                print(event[2], end="", flush=True)
    except KeyboardInterrupt:
        print("\nNo longer shown; the run goes on.")
        return
    _print_summary(details)


def _print_summary(details):
    """Print the current state of the run."""
    data = details.get_widget_data()
    print("Run {}: {}".format(data["run_id"], data["status"]))
    print("Web View: {}".format(data["portal_url"]))
    if data["message"]:
        print(data["message"])
    if data["sweep"] is not None:
        _print_sweep(data["sweep"])
        return
    for metric in data["run_metrics"]:
        print("  {}: {}".format(metric["name"], metric_text(metric["values"])))


def _print_sweep(view):
    print(_on_one_line("Best so far: {}".format(best_text(view))))
    print("Children: {}".format(counts_text(view)))
    headings, rows = sweep_table(view)
    lines = [[_on_one_line(cell) for cell in cells] for cells in [headings] + rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for cells in lines if rows else ():
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())
    if others_text(view):
        print("  " + others_text(view))


def _on_one_line(text):
    """Escape control characters, which could move the cursor or end the line."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def metric_text(values):
    """Short text of a metric: its last value, and the number of values."""
    last = "{:.6g}".format(values[-1]) if isinstance(values[-1], float) else str(values[-1])
    return last if len(values) == 1 else "{} ({} values)".format(last, len(values))


def _is_sweep(run):
    return run.type == _SWEEP_TYPE


def sweep_view(run):
    """View of the sweep by one request, however many children; see `sweep/view` in docs/wire.md."""
    return run._client.get(run._path + "/sweep/view", top=_MOST_CHILDREN, lines=_MOST_LINES)


def _sweep_child_runs(view):
    return [{"run_id": one["run_id"], "run_number": one["number"], "status": one["status"],
             "hyperparameters": _values_of(one), "best_primary_metric": one["best_primary_metric"],
             "intervals": one["intervals"], "why": one["why"]} for one in view["trials"]]


def _sweep_run_metrics(view):
    """Primary metric of the best children, one entry each; None in the values stands for NaN and infinity."""
    name = view["sweep"]["primary_metric"]["name"]
    return [{"name": name, "run_id": one["run_id"], "values": one["numbers"]}
            for one in view["trials"] if one.get("numbers")]


def _values_of(trial):
    return json.loads(trial["hyperparameters"])


def best_text(view):
    best = view["best"]
    if best is None or best["best_primary_metric"] is None:
        logged = ", ".join(sorted(view.get("logged") or {}))
        return "none yet" + (", they logged {}".format(logged) if logged else "")
    values = ", ".join("{} = {}".format(name, _cell_text(value)) for name, value in _values_of(best).items())
    return "{} by {}: {}".format(_cell_text(best["best_primary_metric"]), best["run_id"], values)


def counts_text(view):
    counts = view["counts"]
    kinds = ("waiting", "running", "completed", "failed", "canceled")
    parts = ["{} {}".format(counts[kind], kind) for kind in kinds if counts.get(kind)]
    if counts.get("stopped"):
        parts[-1] += " ({} by the policy)".format(counts["stopped"])
    return ", ".join(parts) or "none yet"


def others_text(view):
    """Text about children that are not shown; '' if all are."""
    left = view["trial_count"] - len(view["trials"])
    return "and {:,} more".format(left) if left > 0 else ""


def _cell_text(value):
    """Short text of a number or sampled value."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return "{:.6g}".format(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL - 3] + "..."


def sweep_table(view):
    """(headings, rows) of the shown children, as text."""
    valued = [(one, _values_of(one)) for one in view["trials"]]
    names = list(dict.fromkeys(name for _, values in valued for name in values))
    headings = ["child", "status", view["sweep"]["primary_metric"]["name"], "logged"] + names + ["why"]
    rows = [[str(one["number"]), one["status"], _cell_text(one["best_primary_metric"]), str(one["intervals"])]
            + [_cell_text(values[name]) if name in values else "" for name in names] + [one["why"]]
            for one, values in valued]
    return headings, rows
