"""Definition and progress of a sweep as text."""

from collections.abc import Mapping
from datetime import UTC, datetime
from json import dumps, loads
from typing import Any

from runyard.cli.display import parse_time, seconds_in_words, value_in_words
from runyard.core.records.runs import RunStatus

_LONGEST_VALUE = 60
_NAMES = {
    "RANDOM": "random",
    "GRID": "grid",
    "BayesianOptimization": "Bayesian",
    "Default": "none, every child goes on to its end",
}


def metric_in_words(sweep: Mapping[str, Any]) -> str:
    primary = sweep["primary_metric"]
    return f"{primary['name']} ({primary['goal']})"


def sampling_in_words(sweep: Mapping[str, Any], seed: int | None) -> str:
    """Name and properties of the sampling. A grid has no seed."""
    name, properties = sweep["sampling"]["name"], sweep["sampling"].get("properties") or {}
    known = {**properties, "seed": None if name == "GRID" else seed}
    return _with_properties(name, {key: value for key, value in known.items() if value is not None})


def policy_in_words(sweep: Mapping[str, Any]) -> str:
    policy = sweep.get("policy") or {"name": "Default"}
    properties = {key: value for key, value in (policy.get("properties") or {}).items() if value is not None}
    return _with_properties(policy["name"], {} if policy["name"] == "Default" else properties)


def expression_in_words(expression: Any) -> str:
    """`["choice", [[1, 2]]]` becomes choice(1, 2)."""
    kind, arguments = expression
    if kind == "choice" and len(arguments) == 1 and isinstance(arguments[0], list):
        arguments = arguments[0]
    return f"{kind}({', '.join(map(cell_in_words, arguments))})"


def bounds_in_words(sweep: Mapping[str, Any]) -> str:
    total, at_once = sweep["max_total_runs"], sweep.get("max_concurrent_runs") or sweep["max_total_runs"]
    return f"at most {total}, {at_once} at a time"


def counts_in_words(counts: Mapping[str, int]) -> str:
    kinds = ("waiting", "running", "completed", "failed", "canceled")
    parts = [f"{counts[kind]} {kind}" for kind in kinds if counts.get(kind)]
    if counts.get("stopped"):
        parts[-1] += f" ({counts['stopped']} by the policy)"
    return f"{counts['sampled']} sampled" + (f": {', '.join(parts)}" if parts else "")


def done_of_all(run: Mapping[str, Any], view: Mapping[str, Any]) -> str:
    """Number of ended children, of all that exist or, while the sweep runs, may exist."""
    counts = view["counts"]
    done = counts["completed"] + counts["failed"] + counts["canceled"]
    has_ended = RunStatus(run["status"]).is_terminal
    return f"{done}/{counts['sampled'] if has_ended else max(counts['sampled'], view['sweep']['max_total_runs'])}"


def best_in_words(view: Mapping[str, Any], sweep_id: str) -> str:
    """Best value, its child and hyperparameters; where no child logged the metric, what they logged instead."""
    best = view["best"]
    if best is not None and best["best_primary_metric"] is not None:
        values = ", ".join(f"{name} = {shortened(cell_in_words(value))}" for name, value in values_of(best).items())
        number = value_in_words(best["best_primary_metric"])
        return f"{number} by child {child_name(best, sweep_id)}" + (f": {values}" if values else "")
    logged = view.get("logged")
    if logged:
        others = ", ".join(f"{name} ({count})" for name, count in logged.items())
        return f"none: no child has logged {view['sweep']['primary_metric']['name']}; they logged {others}"
    return ""


def values_of(trial: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = loads(trial["hyperparameters"])
    return values


def child_name(trial: Mapping[str, Any], sweep_id: str) -> str:
    """Number of the child; the whole run id for a child of an earlier sweep."""
    run_id = str(trial["run_id"])
    return str(trial["number"]) if run_id.rpartition("_")[0] == sweep_id else run_id


def time_left(run: Mapping[str, Any], view: Mapping[str, Any]) -> str:
    """Time until the sweep's limit ends its children; empty for an ended sweep."""
    end = parse_time(view.get("ends_at"))
    if end is None or RunStatus(run["status"]).is_terminal:
        return ""
    return seconds_in_words(max(0.0, (end - datetime.now(UTC)).total_seconds()))


def cell_in_words(value: Any) -> str:
    """A sampled value: lists and objects as JSON, text as it is."""
    if isinstance(value, list | dict):
        return dumps(value, ensure_ascii=False)
    return value_in_words(value)


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _with_properties(name: str, properties: Mapping[str, Any]) -> str:
    return ", ".join([_NAMES.get(name, name), *(f"{key} {cell_in_words(value)}" for key, value in properties.items())])
