import sys

from azureml.exceptions import UserErrorException
from azureml.widgets import _sweeps

_MOST_METRICS = 20
_TERMINAL = ("Completed", "Failed", "Canceled")


class RunDetails:
    """What to show of a run. `show()` returns at once in a notebook and prints one summary elsewhere."""

    def __new__(cls, run_instance):
        from azureml.core.run import Run

        if not isinstance(run_instance, Run):
            raise UserErrorException("run_instance must be a Run, got {}.".format(type(run_instance).__name__))
        return super().__new__(cls)

    def __init__(self, run_instance):
        self._run = run_instance

    def show(self, render_lib=None, widget_settings=None):
        """Show the run: a refreshed table in a notebook, live lines in a terminal, one summary elsewhere."""
        from azureml.widgets import _notebook, _terminal

        if _notebook.is_present():
            _notebook.show(self)
        elif sys.stdout.isatty():
            _terminal.follow(self)
        else:
            _terminal.summary(self)

    def get_widget_data(self, widget_settings=None):
        """What is shown, as a dict: status, run_id, run_properties, child_runs, run_metrics, run_logs, error.

        Of a sweep `child_runs` are its best children and `run_metrics` the primary metric of the very best.
        """
        run = self._run
        details = run.get_details()
        view = _sweeps.seen(run) if _sweeps.is_sweep(run) else None
        return {
            "status": details["status"], "workspace": run.experiment.workspace.name, "experiment": run.experiment.name,
            "run_id": run.id, "run_number": run.number, "run_type": run.type, "target": details["target"],
            "portal_url": run.get_portal_url(), "run_properties": _properties(details, run),
            "child_runs": _child_runs(run) if view is None else _sweeps.child_runs(view),
            "run_metrics": _run_metrics(run) if view is None else _sweeps.run_metrics(view), "sweep": view,
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
