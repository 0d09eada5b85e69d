"""Runyard's additions to the sweeps of SDK v1: the ASHA policy, and trials as a table."""

import json

from runyard_sdk.errors import InvalidArgument, RunyardError

_FACTS = ("run_id", "number", "status", "best_primary_metric", "intervals")
_STOPS = (("stopped_by", "policy"), ("stopped_at", "interval"), ("stopped_because", "text"))


class AshaPolicy:
    """Asynchronous successive halving, as `policy` of a HyperDriveConfig.

    At `min_intervals` logs of the primary metric, and at each `reduction_factor` times as many up to `max_intervals`
    (None: no limit), a child continues only while it is among the best 1 / reduction_factor that got that far.
    """

    POLICY_NAME = "ASHA"

    def __init__(self, reduction_factor=3, min_intervals=1, max_intervals=None):
        self._properties = {"reduction_factor": _at_least("reduction_factor", reduction_factor, 2),
                            "min_intervals": _at_least("min_intervals", min_intervals, 1)}
        if max_intervals is not None:
            self._properties["max_intervals"] = _at_least("max_intervals", max_intervals, min_intervals + 1)

    @property
    def reduction_factor(self):
        return self._properties["reduction_factor"]

    @property
    def min_intervals(self):
        return self._properties["min_intervals"]

    @property
    def max_intervals(self):
        return self._properties.get("max_intervals")

    def to_json(self):
        return {"name": self.POLICY_NAME, "properties": dict(self._properties)}

    def __eq__(self, other):
        return isinstance(other, AshaPolicy) and self.to_json() == other.to_json()

    def __hash__(self):
        return hash((self.reduction_factor, self.min_intervals, self.max_intervals))

    def __repr__(self):
        return "AshaPolicy(reduction_factor={!r}, min_intervals={!r}, max_intervals={!r})".format(
            self.reduction_factor, self.min_intervals, self.max_intervals)


def trials_frame(run):
    """Children of a sweep (a HyperDriveRun) as a pandas.DataFrame, one row each in sampling order.

    Columns: run_id, number, status, best_primary_metric (NaN if none was logged), intervals (how often it was logged),
    stopped_by (a policy), stopped_at (its interval) and stopped_because (its reason), which are missing where none
    stopped it, then each hyperparameter under its name; one with the name of such a column gets the prefix "value_".
    Raises RunyardError if pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise RunyardError("trials_frame needs pandas, which is not installed here.", hint="pip install pandas")
    trials = sorted(run._trials(), key=lambda trial: trial["number"])
    columns = {name: [trial[name] for trial in trials] for name in _FACTS}
    columns["best_primary_metric"] = [_number(value) for value in columns["best_primary_metric"]]
    columns.update({name: [(trial["stop"] or {}).get(key) for trial in trials] for name, key in _STOPS})
    values = [json.loads(trial["hyperparameters"]) for trial in trials]
    for name in _names(values):
        column = "value_" + name if name in columns else name
        columns[column] = [given.get(name) for given in values]
    return DataFrame(columns)


def _names(values):
    """Distinct names, in order of first appearance."""
    return list({name: None for given in values for name in given})


def _number(value):
    return float("nan") if value is None else value


def _at_least(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument("{} must be a whole number of at least {}, got {!r}.".format(name, least, value))
    return value
