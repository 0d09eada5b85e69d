"""What is shown of a sweep: the best so far, its best children, how the primary metric of the very best went."""

import json

SWEEP_TYPE = "hyperdrive"
MOST_CHILDREN = 20
MOST_LINES = 10
_LONGEST_CELL = 60


def is_sweep(run):
    return run.type == SWEEP_TYPE


def seen(run):
    """All of it by one request, however many children there are; see `sweep/view` in docs/wire.md."""
    return run._client.get(run._path + "/sweep/view", top=MOST_CHILDREN, lines=MOST_LINES)


def child_runs(view):
    return [{"run_id": one["run_id"], "run_number": one["number"], "status": one["status"],
             "hyperparameters": values_of(one), "best_primary_metric": one["best_primary_metric"],
             "intervals": one["intervals"], "why": one["why"]} for one in view["trials"]]


def run_metrics(view):
    """The primary metric of the best children, one entry for each; None in the values stands for NaN and infinity."""
    name = view["sweep"]["primary_metric"]["name"]
    return [{"name": name, "run_id": one["run_id"], "values": one["numbers"]}
            for one in view["trials"] if one.get("numbers")]


def values_of(trial):
    return json.loads(trial["hyperparameters"])


def best_in_words(view):
    best = view["best"]
    if best is None or best["best_primary_metric"] is None:
        logged = ", ".join(sorted(view.get("logged") or {}))
        return "none yet" + (", they logged {}".format(logged) if logged else "")
    values = ", ".join("{} = {}".format(name, cell(value)) for name, value in values_of(best).items())
    return "{} by {}: {}".format(cell(best["best_primary_metric"]), best["run_id"], values)


def counts_in_words(view):
    counts = view["counts"]
    kinds = ("waiting", "running", "completed", "failed", "canceled")
    parts = ["{} {}".format(counts[kind], kind) for kind in kinds if counts.get(kind)]
    if counts.get("stopped"):
        parts[-1] += " ({} by the policy)".format(counts["stopped"])
    return ", ".join(parts) or "none yet"


def others_in_words(view):
    """Of the children that are not shown; empty where all are."""
    left = view["trial_count"] - len(view["trials"])
    return "and {:,} more".format(left) if left > 0 else ""


def cell(value):
    """A number or a sampled value in few characters."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return "{:.6g}".format(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL - 3] + "..."


def table(view):
    """(headings, rows) of the children that are shown, all of it text."""
    valued = [(one, values_of(one)) for one in view["trials"]]
    names = list(dict.fromkeys(name for _, values in valued for name in values))
    headings = ["child", "status", view["sweep"]["primary_metric"]["name"], "logged"] + names + ["why"]
    rows = [[str(one["number"]), one["status"], cell(one["best_primary_metric"]), str(one["intervals"])]
            + [cell(values[name]) if name in values else "" for name in names] + [one["why"]] for one, values in valued]
    return headings, rows
