"""Sections of the page of a sweep, and of one of its trials."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runyard.core.records.runs import RunId, RunRecord
from runyard.core.records.sweeps import VALUES_TAG, RankedTrial
from runyard.runs.kinds.sweep.views import SweepView, TrialView
from runyard.server.page.markup import Markup, tag
from runyard.server.page.plots import metric_plot, sweep_plot
from runyard.server.page.sections import EMPTY, MAX_VALUE_CHARACTERS, clock_time, number, section, table

MOST_CHARACTERS_ON_A_LINE = 32
PageLink = Callable[[RunId], str]


def sweep(run: RunRecord, view: SweepView, link: PageLink) -> Markup:
    summary = view.summary
    facts = [f"{summary.metric} ({summary.goal.value})", _counts(summary.counts)]
    if summary.ends_at is not None and not run.status.is_terminal:
        facts.append(f"its time is over at {clock_time(summary.ends_at)}")
    drawing = sweep_plot(view.progress)
    return section("Sweep", tag("p", " · ".join(facts), class_="soft"), _best(view, link), drawing)


def children(view: SweepView, link: PageLink) -> Markup:
    """Table of the best children, and the number of the others."""
    if not view.trials:
        return EMPTY
    valued = [(one, values_of(one.trial.values)) for one in view.trials]
    names = list(dict.fromkeys(name for _, values in valued for name in values))
    head = ("child", "status", view.summary.metric, "logged", "", *names, "why")
    rows = [_row(one, [values.get(name, "") for name in names], link) for one, values in valued]
    left = view.trial_count - len(rows)
    note = tag("p", f"The best {len(rows)}; {left:,} more are not shown.", class_="soft") if left else EMPTY
    return section(f"Children ({view.trial_count:,})", table(head, rows), note, class_="children")


def trial(run: RunRecord) -> Markup:
    """Sweep and hyperparameters of a child. Without a link, because the key opens no other page."""
    if run.parent_id is None or VALUES_TAG not in run.tags or not run.id.startswith(f"{run.parent_id}_"):
        return EMPTY
    rows = [(name, cell(value)) for name, value in values_of(run.tags[VALUES_TAG]).items()]
    return section(f"Trial of sweep {run.parent_id}", table(("name", "value"), rows) if rows else EMPTY)


def values_of(text: Any) -> Mapping[str, Any]:
    """Parse the values; empty for text that is no JSON object, because anybody can write tags."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def cell(value: Any) -> str:
    shown = number(value) if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    return shown[:MAX_VALUE_CHARACTERS]


def _best(view: SweepView, link: PageLink) -> Markup:
    best, summary = view.summary.best, view.summary
    if best is not None and best.best is not None:
        values = ", ".join(f"{name} = {cell(value)}" for name, value in values_of(best.values).items())
        return tag("p", tag("strong", f"Best so far {number(best.best)}"), " by ", _child(best, link), f": {values}")
    if summary.logged:
        others = ", ".join(f"{name} ({count})" for name, count in summary.logged.items())
        return tag("p", f"No child has logged {summary.metric}. They logged: {others}.")
    return EMPTY


def _child(one: RankedTrial, link: PageLink) -> Markup:
    return tag("a", f"child {one.number}", href=link(one.run_id))


def _row(seen: TrialView, values: Sequence[Any], link: PageLink) -> Sequence[object]:
    one = seen.trial
    status = tag("span", one.status.value, class_=f"status {one.status.value}")
    line = metric_plot([float("nan") if value is None else value for value in seen.numbers])
    given = [_wrapped(cell(value)) for value in values]
    return (_child(one, link), status, number(one.best), one.intervals, line, *given, _wrapped(seen.why))


def _wrapped(text: str) -> Markup | str:
    """Let long texts wrap."""
    return tag("div", text, class_="long") if len(text) > MOST_CHARACTERS_ON_A_LINE else text


def _counts(counts: Mapping[str, int]) -> str:
    kinds = ("waiting", "running", "completed", "failed", "canceled")
    parts = [f"{counts[kind]} {kind}" for kind in kinds if counts[kind]]
    if counts["stopped"]:
        parts[-1] += f" ({counts['stopped']} by the policy)"
    return ", ".join([f"{counts['sampled']} sampled", *parts])
