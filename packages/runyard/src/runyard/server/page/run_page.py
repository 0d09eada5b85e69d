import base64
import hashlib
from functools import cache
from importlib.resources import files

from runyard.runs.kinds.sweep.views import SweepView
from runyard.runs.overview import RunOverview
from runyard.server.page import sections, sweeps
from runyard.server.page.markup import Markup, joined, tag
from runyard.server.page.sections import nodes, rank_logs

REFRESH_SECONDS = 3


def render_run_page(overview: RunOverview, key: str, sweep: SweepView | None, link_to: sweeps.PageLink) -> str:
    """Render the page of a run. It refreshes itself without JavaScript until the run has ended."""
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
        nodes(overview.ranks),
        sections.log(overview.log, link),
        rank_logs(overview.rank_logs, link),
        sections.files(overview.files, overview.file_count, link),
        sections.environment(run),
        sections.labels(run),
        sections.events(overview.history),
    )
    return joined(Markup("<!doctype html>\n"), tag("html", head, tag("body", main), lang="en"))


@cache
def page_headers() -> dict[str, str]:
    """Security headers: only our own style is allowed, and no referrer leaks the key in the address."""
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
    return files("runyard.server.page").joinpath("style.css").read_text(encoding="utf-8") + widths
