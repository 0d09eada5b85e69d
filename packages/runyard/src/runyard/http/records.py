"""Runs and assets as the wire shows them."""

from typing import Any
from urllib.parse import quote

from runyard.http.context import Services
from runyard.model.assets import Asset, AssetKind
from runyard.model.runs import RunRecord
from runyard.services.built_environments import KEY_TAG
from runyard.services.environment_labels import LABEL_TAG, labels_of

_NOT_IN_LISTINGS = ("sequence", "definition", "environment_lock")


class RunWire:
    """Knows the address of the run pages, which is part of every record.

    The key in it is shown `with_keys` alone: a script's would open pages when its token no longer opens anything."""

    def __init__(self, services: Services, base_url: str, *, with_keys: bool) -> None:
        self._services, self._base_url, self._with_keys = services, base_url, with_keys

    def whole(self, run: RunRecord, *, metrics: bool = False) -> dict[str, Any]:
        """With its phases, data and logs, and on request the last value of each metric."""
        shown = self.short(run)
        shown["definition"] = run.definition
        shown["environment_lock"] = run.environment_lock
        shown["phases"] = self._services.runs.history(run).phases
        shown["inputs"], shown["outputs"] = self._services.lineage.of_run(run.id)
        shown["log_files"] = self._services.runs.log_paths(run.id)
        if metrics:
            shown["metrics"] = self._services.metrics.last_values(run.id)
        return shown

    def short(self, run: RunRecord) -> dict[str, Any]:
        """As in a listing: what one row of the store holds, but for the large parts."""
        shown = dict(vars(run))
        for name in _NOT_IN_LISTINGS:
            del shown[name]
        shown["web_view"] = self.web_view(run)
        return shown

    def last_values(self, runs: list[RunRecord]) -> dict[str, dict[str, float | None]]:
        """None for a metric that holds no numbers: a listing does not read whole metrics."""
        found = self._services.runs.summaries([run.id for run in runs])
        return {run.id: {one.name: one.last for one in found.get(run.id, ())} for run in runs}

    def web_view(self, run: RunRecord) -> str:
        name = run.id if run.id.isascii() else quote(run.id, safe="")
        address = f"{self._base_url}/runs/{name}"
        return f"{address}?key={self._services.tokens.page_key(run.id)}" if self._with_keys else address


def shown_asset(asset: Asset) -> dict[str, Any]:
    """Of an environment with its labels, which lie among its tags."""
    shown = _shown(asset)
    if asset.kind is AssetKind.ENVIRONMENT:
        own = (KEY_TAG, *(name for name in asset.tags if name.startswith(LABEL_TAG)))
        shown["labels"] = labels_of(asset)
        shown["tags"] = {name: value for name, value in asset.tags.items() if name not in own}
    return shown


def _shown(asset: Asset) -> dict[str, Any]:
    return {
        "id": asset.id,
        "name": asset.name,
        "version": asset.version,
        "created_at": asset.created_at,
        "modified_at": asset.modified_at,
        "body": asset.body,
        "tags": asset.tags,
    }
