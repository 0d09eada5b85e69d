"""Wire models that several routes share: runs, assets, and the data of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired
from urllib.parse import quote

from typing_extensions import TypedDict

from runyard.core.principal import OWNER, Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.core.records.environments import KEY_TAG, LABEL_TAG
from runyard.core.records.runs import RunRecord, RunStatus
from runyard.data.datasets.lineage import LineageInput, LineageOutput
from runyard.environments.workspace.labels import labels_of
from runyard.runs.runs import Phase
from runyard.server.services import Services


# TypedDicts, not dataclasses as elsewhere: a listing makes up to a thousand of them.
class ListedRun(TypedDict):
    id: str
    workspace: str
    experiment: str
    number: int
    status: RunStatus
    created_at: datetime
    created_by: str
    """"owner", "run:ID" of the run whose script submitted it, or "service"; empty where it was not recorded."""
    version: int
    type: str
    kind: str
    has_children: bool
    target: str
    display_name: str
    description: str
    parent_id: str | None
    root_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    snapshot_id: str | None
    tags: Mapping[str, str]
    properties: Mapping[str, str]
    error: Mapping[str, Any] | None
    warnings: Sequence[str]
    message: str
    attempt: int
    ticket: str
    nodes: Sequence[str]
    dropped_points: int
    exit_facts: Mapping[str, Any] | None
    launched_from: str | None
    job_id: str | None
    """Id that the engine gave the job of the current attempt."""
    web_view: str
    metrics: NotRequired[Mapping[str, Any]]
    """The last value of each, where they were asked for."""


class WholeRun(ListedRun):
    definition: Mapping[str, Any]
    environment_lock: str
    phases: Sequence[Phase]
    inputs: Sequence[LineageInput]
    outputs: Sequence[LineageOutput]
    log_files: Sequence[str]


class RunSerializer:
    """Turns run records into wire models, with the address of each run's page."""

    def __init__(self, services: Services, base_url: str) -> None:
        self._services, self._base_url = services, base_url

    def whole(self, who: Principal, run: RunRecord, *, metrics: bool = False) -> WholeRun:
        """The full record: definition, phases, data and logs; with `metrics` also the last value of each."""
        inputs, outputs = self._services.lineage.of_run(who, run)
        shown: WholeRun = {
            **self.short(who, run),
            "definition": run.definition.raw,
            "environment_lock": run.environment_lock,
            "phases": self._services.runs.history(who, run).phases,
            "inputs": inputs,
            "outputs": outputs,
            "log_files": self._services.runs.log_paths(who, run),
        }
        if metrics:
            shown["metrics"] = self._services.metrics.last_values(who, run.id)
        return shown

    def short(self, who: Principal, run: RunRecord) -> ListedRun:
        """The record of a listing: one row of the store without its large fields."""
        kind = self._services.kinds.of(run)
        return {
            "id": run.id,
            "workspace": run.workspace,
            "experiment": run.experiment,
            "number": run.number,
            "status": run.status,
            "created_at": run.created_at,
            "created_by": run.created_by,
            "version": run.version,
            "type": run.type,
            "kind": kind.name,
            "has_children": kind.has_children,
            "target": run.target,
            "display_name": run.display_name,
            "description": run.description,
            "parent_id": run.parent_id,
            "root_id": run.root_id,
            "started_at": run.started_at,
            "ended_at": run.ended_at,
            "snapshot_id": run.snapshot_id,
            "tags": run.tags,
            "properties": run.properties,
            "error": run.error,
            "warnings": run.warnings,
            "message": run.message,
            "attempt": run.attempt,
            "ticket": run.ticket,
            "nodes": run.nodes,
            "dropped_points": run.dropped_points,
            "exit_facts": run.exit_facts,
            "launched_from": run.launched_from,
            "job_id": run.job_id,
            "web_view": self.web_view(who, run),
        }

    def listed(self, who: Principal, runs: Sequence[RunRecord], *, metrics: bool) -> list[ListedRun]:
        """Records of a listing. A metric without numbers is null: a listing reads only summaries."""
        rows = [self.short(who, run) for run in runs]
        if metrics:
            found = self._services.runs.summaries(who, runs)
            for run, row in zip(runs, rows, strict=True):
                row["metrics"] = {one.name: one.last for one in found.get(run.id, ())}
        return rows

    def web_view(self, who: Principal, run: RunRecord) -> str:
        """Address of the run's page. Only the owner gets the key: a script's would outlive its token."""
        name = run.id if run.id.isascii() else quote(run.id, safe="")
        address = f"{self._base_url}/runs/{name}"
        return f"{address}?key={self._services.tokens.page_key(run.id)}" if who == OWNER else address


@dataclass(frozen=True)
class AssetAnswer:
    id: str
    name: str
    version: int
    created_at: datetime
    modified_at: datetime
    body: Mapping[str, Any]
    """Fields of this kind of asset."""
    tags: Mapping[str, str]
    created_by: str
    """"owner", "run:ID" of the run whose script made it, or "service"; empty where it was not recorded."""


@dataclass(frozen=True)
class EnvironmentAnswer(AssetAnswer):
    labels: list[str]


def asset_answer(asset: Asset) -> AssetAnswer:
    """Wire model of an asset. Labels of an environment are stored as tags and shown apart."""
    shown = (asset.id, asset.name, asset.version, asset.created_at, asset.modified_at, asset.body)
    if asset.kind is not AssetKind.ENVIRONMENT:
        return AssetAnswer(*shown, tags=asset.tags, created_by=asset.created_by)
    own = (KEY_TAG, *(name for name in asset.tags if name.startswith(LABEL_TAG)))
    tags = {name: value for name, value in asset.tags.items() if name not in own}
    return EnvironmentAnswer(*shown, tags=tags, created_by=asset.created_by, labels=labels_of(asset))


FileRow = tuple[str, str, str, int | None, str, bool]
"""[path, store, key, size, etag, is_ranged]"""


@dataclass(frozen=True)
class DatasetWire:
    files: Sequence[FileRow]
    is_one_file: bool
    folder: tuple[str, str] | None
    """(datastore, path) where the dataset is that whole folder, or that one file."""
    changes: Sequence[str]
    """Sentences about what changed since the version was created."""


# Written by `data_to_json`; declared here for the OpenAPI.
@dataclass(frozen=True)
class DataWire:
    datasets: Mapping[str, DatasetWire]
    stores: Mapping[str, StoreAccess]
    network: NetworkRules
