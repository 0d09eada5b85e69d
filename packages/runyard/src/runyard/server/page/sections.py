"""Sections of a run's page; each is empty where the run has nothing to show in it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from runyard.core.records.launch_plan import DataItem
from runyard.core.records.runs import RunRecord
from runyard.data.datasets.lineage import LineageInput, LineageOutput
from runyard.environments.lockfile import LockFile
from runyard.runs.history.files import ListedFile
from runyard.runs.history.ranks import NodeOfRun, RankOfRun, RanksOfRun
from runyard.runs.kinds.kind import RunKind
from runyard.runs.overview import LogTailView, MetricOverview
from runyard.runs.runs import Phase, RunHistory
from runyard.server.page.markup import Markup, joined, tag
from runyard.server.page.plots import metric_plot

EMPTY = Markup("")
MAX_VALUE_CHARACTERS = 200


def heading(run: RunRecord, kind: RunKind) -> Markup:
    """Title, status and facts of the run. The kind is named where it is no plain run."""
    title = run.display_name or run.id
    facts = [f"run {run.number} of {run.experiment}", f"workspace {run.workspace}", f"on {run.target}"]
    if title != run.id:
        facts.insert(0, run.id)
    if kind.type:
        facts.insert(0, kind.title)
    if run.parent_id:
        facts.append(f"child of {run.parent_id}")
    if run.created_by:
        facts.append(f"created by {run.created_by}")
    return joined(
        tag("header", tag("h1", title), tag("span", run.status.value, class_=f"status {run.status.value}")),
        tag("p", " · ".join(facts), class_="soft"),
        tag("p", run.message) if run.message else EMPTY,
        tag("p", run.description) if run.description else EMPTY,
    )


def error(run: RunRecord) -> Markup:
    if not run.error:
        return EMPTY
    inner = run.error.get("error", run.error)
    details = inner if isinstance(inner, dict) else {"message": str(inner)}
    parameters = details.get("messageParameters")
    cause = parameters.get("cause") if isinstance(parameters, dict) else None
    title = ": ".join(["Error", *(str(part) for part in (details.get("code"), cause) if part)])
    return section(title, tag("pre", details.get("message", "")), class_="bad")


def warnings(run: RunRecord) -> Markup:
    lines = list(run.warnings)
    if run.dropped_points:
        lines.append(f"{run.dropped_points} logged points could not be kept.")
    return section("Warnings", *(tag("p", line) for line in lines)) if lines else EMPTY


def phases(several: Sequence[Phase]) -> Markup:
    if not several:
        return EMPTY
    total = sum(phase.seconds for phase in several)
    rows = [
        (phase.name, tag("span", seconds(phase.seconds), class_="number"), clock_time(phase.started_at))
        for phase in several
    ]
    return section("Phases", _bar(several, total), table(("phase", "took", "began"), rows), total_line(total))


def total_line(total: float) -> Markup:
    return tag("p", f"{seconds(total)} in all", class_="soft")


def data(inputs: Sequence[LineageInput], outputs: Sequence[LineageOutput], references: Sequence[DataItem]) -> Markup:
    rows = [("input", one.input_name, dataset(one), one.mode) for one in inputs]
    rows += [("output", one.output_name, dataset(one), "") for one in outputs]
    rows += [("reference", one.name, location(one), one.mode.capitalize()) for one in references]
    return section("Data", table(("", "name", "data", "mode"), rows)) if rows else EMPTY


def dataset(one: LineageInput | LineageOutput) -> str:
    """Name and version; the id for a dataset that was never registered."""
    return f"{one.name}, version {one.version}" if one.name else one.dataset_id


def location(reference: DataItem) -> str:
    return f"{reference.datastore}: {reference.path or '/'}"


def metrics(several: Sequence[MetricOverview]) -> Markup:
    rows = [
        (
            one.summary.name,
            value(one.last),
            number(one.summary.minimum),
            number(one.summary.maximum),
            one.summary.count,
            metric_plot(one.values),
        )
        for one in several
    ]
    return section("Metrics", table(("name", "last", "min", "max", "count", ""), rows)) if rows else EMPTY


def log(tail: LogTailView | None, link: Callable[[str], str]) -> Markup:
    if tail is None:
        return EMPTY
    note = tag("p", "The end of it; the whole is below Files.", class_="soft") if tail.is_cut else EMPTY
    return section("Log", tag("p", tag("a", tail.path, href=link(tail.path))), note, tag("pre", tail.text))


def files(several: Sequence[ListedFile], count: int, link: Callable[[str], str]) -> Markup:
    if not several:
        return EMPTY
    rows = [
        (tag("a", file.path, href=link(file.path)), tag("span", size(file.size), class_="number")) for file in several
    ]
    note = tag("p", f"The first {len(several)} of {count}.", class_="soft") if count > len(several) else EMPTY
    return section(f"Files ({count})", table(("path", "size"), rows), note)


def events(history: RunHistory) -> Markup:
    rows = [(clock_time(event.at), event.kind, event.text) for event in history.events]
    return section("Events", table(("at", "kind", ""), rows)) if rows else EMPTY


def environment(run: RunRecord) -> Markup:
    if not run.environment_lock:
        return EMPTY
    lock = LockFile.parse(run.environment_lock)
    facts = [f"Python {lock.python}" if lock.python else "", lock.platform, f"in {lock.base}" if lock.base else ""]
    summary = tag("p", " · ".join(filter(None, facts)), class_="soft") if any(facts) else EMPTY
    listed = tag("details", tag("summary", f"{len(lock.versions)} packages"), tag("pre", run.environment_lock))
    return section("Environment", summary, listed)


def labels(run: RunRecord) -> Markup:
    rows = [("tag", key, value) for key, value in sorted(run.tags.items())]
    rows += [("property", key, value) for key, value in sorted(run.properties.items())]
    return section("Tags and properties", table(("", "name", "value"), rows)) if rows else EMPTY


def section(title: str, *inside: object, class_: str | None = None) -> Markup:
    return tag("section", tag("h2", title), *inside, class_=class_)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    return tag(
        "table",
        tag("thead", tag("tr", *(tag("th", name) for name in head))),
        tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)),
    )


def file_link(run_id: str, key: str) -> Callable[[str], str]:
    return lambda path: f"/runs/{quote(run_id, safe='')}/files/{quote(path)}?key={key}"


def value(given: Any) -> str:
    """Last value of a metric on one line; long texts are cut."""
    if isinstance(given, dict):
        return ", ".join(f"{name}={value(cell)}" for name, cell in given.items())[:MAX_VALUE_CHARACTERS]
    return number(given) if isinstance(given, float) else str(given)[:MAX_VALUE_CHARACTERS]


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def seconds(value: float) -> str:
    if value < 60:
        return f"{value:.3g} s" if value >= 0.1 else f"{value * 1000:.0f} ms"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def size(value: int) -> str:
    amount, unit = float(value), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def clock_time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _bar(several: Sequence[Phase], total: float) -> Markup:
    """Bar of the phases. Widths are classes, because the content security policy allows no inline style."""
    parts = [tag("span", class_=f"w{max(1, round(100 * phase.seconds / total)) if total else 1}") for phase in several]
    return tag("div", *parts, class_="bar")


def nodes(several: RanksOfRun) -> Markup:
    """Table of the nodes; empty for one process on one node."""
    if len(several.nodes) < 2 and len(several.ranks) < 2:
        return EMPTY
    rows = [
        (one.node, one.name or one.address, one.address, _ranks_on(one.node, several.ranks), one.state, exit_text(one))
        for one in several.nodes
    ]
    return section(f"Nodes ({len(rows)})", table(("node", "name", "address", "ranks", "state", "end"), rows))


def rank_logs(several: Sequence[LogTailView], link: Callable[[str], str]) -> Markup:
    """Logs of the other ranks, collapsed."""
    if not several:
        return EMPTY
    opened = [
        tag("details", tag("summary", tag("a", one.path, href=link(one.path))), tag("pre", one.text)) for one in several
    ]
    return section("Logs of the other ranks", *opened)


def exit_text(node: NodeOfRun) -> str:
    """How the worst process of the node ended, in few words."""
    if node.oom:
        return "out of memory"
    if node.signal:
        return f"signal {node.signal}"
    if node.exit_code:
        return f"exit code {node.exit_code}"
    return node.outcome


def _ranks_on(node: int, ranks: Sequence[RankOfRun]) -> str:
    found = [one for one in ranks if one.node == node]
    return ", ".join(str(one.rank) if one.role == "worker" else f"{one.rank} ({one.role})" for one in found)
