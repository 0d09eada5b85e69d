"""Runs as the wire shows them."""

from dataclasses import fields
from typing import Any
from urllib.parse import quote

from runyard.http.context import Services
from runyard.model.runs import RunRecord

_HIDDEN = frozenset({"sequence"})
_FIELDS = tuple(field.name for field in fields(RunRecord) if field.name not in _HIDDEN)


class RunWire:
    """Knows the address of the run pages, which is part of every record."""

    def __init__(self, services: Services, base_url: str) -> None:
        self._services, self._base_url = services, base_url

    def whole(self, run: RunRecord, *, metrics: bool = False) -> dict[str, Any]:
        """With its phases and logs, and on request the last value of each metric."""
        shown = self.short(run)
        shown["definition"] = run.definition
        shown["environment_lock"] = run.environment_lock
        shown["phases"] = self._services.runs.history(run).phases
        shown["log_files"] = self._services.runs.log_paths(run.id)
        if metrics:
            shown["metrics"] = self._services.metrics.last_values(run.id)
        return shown

    def short(self, run: RunRecord) -> dict[str, Any]:
        """As in a listing: what one row of the store holds, but for the large parts."""
        shown = {name: getattr(run, name) for name in _FIELDS if name not in ("definition", "environment_lock")}
        shown["web_view"] = self.web_view(run)
        return shown

    def last_values(self, runs: list[RunRecord]) -> dict[str, dict[str, float | None]]:
        """None for a metric that holds no numbers: a listing does not read whole metrics."""
        found = self._services.runs.summaries([run.id for run in runs])
        return {run.id: {one.name: one.last for one in found.get(run.id, ())} for run in runs}

    def web_view(self, run: RunRecord) -> str:
        key = self._services.tokens.page_key(run.id)
        return f"{self._base_url}/runs/{quote(run.id, safe='')}?key={key}"
