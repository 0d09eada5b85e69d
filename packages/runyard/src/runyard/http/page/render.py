import base64
import hashlib
from functools import cache
from importlib.resources import files

from runyard.http.page import nodes, sections, sweeps
from runyard.http.page.markup import Markup, joined, tag
from runyard.runs.kinds.sweep.views import SweepView
from runyard.runs.overview import Overview

REFRESH_SECONDS = 3


def render(overview: Overview, key: str, sweep: SweepView | None, link_to: sweeps.PageLink) -> str:
    """The whole page. It refreshes itself until the run has ended, and needs no script to do so."""
    run = overview.run
    link = sections.file_link(run.id, key)
    refresh = [] if run.status.is_terminal else [tag("meta", http_equiv="refresh", content=REFRESH_SECONDS)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        *refresh,
        tag("title", f"{run.status.value}: {run.display_name or run.id}"),
        tag("style", Markup(_style())),
    )
    main = tag(
        "main",
        sections.heading(run, overview.kind),
        sections.error(run),
        sections.warnings(run),
        *([] if sweep is None else [sweeps.sweep(run, sweep, link_to), sweeps.children(sweep, link_to)]),
        sweeps.trial(run),
        sections.phases(overview.history.phases),
        sections.data(overview.inputs, overview.outputs, overview.references),
        sections.metrics(overview.metrics),
        nodes.nodes(overview.ranks),
        sections.log(overview.log, link),
        nodes.rank_logs(overview.rank_logs, link),
        sections.files(overview.files, overview.file_count, link),
        sections.environment(run),
        sections.labels(run),
        sections.events(overview.history),
    )
    return joined(Markup("<!doctype html>\n"), tag("html", head, tag("body", main), lang="en"))


@cache
def headers() -> dict[str, str]:
    """Nothing may be loaded or run but our own style; the key in the address is told to nobody."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


@cache
def _style() -> str:
    widths = " ".join(f".w{percent} {{ width: {percent}%; }}" for percent in range(1, 101))
    return files("runyard.http.page").joinpath("style.css").read_text(encoding="utf-8") + widths
