from dataclasses import dataclass

from starlette.responses import Response

from runyard.core.policy import Action
from runyard.http.answers import Json
from runyard.http.context import Use, Who
from runyard.http.numbers import Whole
from runyard.http.routing import Routes
from runyard.model.runs import RunRecord, RunStatus
from runyard.model.web_services import ServiceState, ServiceType
from runyard.services.web_services.model_lineage import NamedDataset, ReadDataset

routes = Routes("/workspaces/{workspace}/models", tag="model_lineage")


@dataclass(frozen=True)
class ModelsRun:
    id: str
    experiment: str
    status: RunStatus
    script: str | None
    snapshot_id: str | None
    lock: str | None
    """Lock of its environment."""


@dataclass(frozen=True)
class ModelsService:
    name: str
    state: ServiceState
    type: ServiceType


@dataclass(frozen=True)
class LineageOfModel:
    model: str
    """As NAME:VERSION."""
    run: ModelsRun | None
    """Null for a model that was registered from files, and where its run is gone."""
    datasets: list[ReadDataset | NamedDataset]
    services: list[ModelsService]


@routes.get("/{name}/lineage", Action.READ_ASSET, LineageOfModel)
def model_lineage(services: Use, who: Who, workspace: str, name: str, version: Whole | None = None) -> Response:
    """The run, code and data that made a model, and the web services that serve it."""
    found = services.model_lineages.of(who, workspace, name, version)
    records = [services.service_records.short(who, service) for service in found.services]
    return Json(
        LineageOfModel(
            model=f"{found.model.name}:{found.model.version}",
            run=_run(found.run) if found.run is not None else None,
            datasets=list(found.datasets),
            services=[ModelsService(record.name, record.state, record.type) for record in records],
        )
    )


def _run(run: RunRecord) -> ModelsRun:
    return ModelsRun(
        id=run.id,
        experiment=run.experiment,
        status=run.status,
        script=run.definition.script or None,
        snapshot_id=run.snapshot_id,
        lock=run.environment_lock or None,
    )
