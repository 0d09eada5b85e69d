from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from runyard.core.policy import Action
from runyard.core.records.runs import RunRecord, RunStatus
from runyard.core.records.web_services import ServiceState, ServiceType
from runyard.models.background_work import WorkRecord
from runyard.models.lineage import NamedDataset, ReadDataset
from runyard.models.profiles import NewProfile
from runyard.server.api.web_services import Deployment
from runyard.server.http.archives import stream_zip
from runyard.server.http.parameters import QueryInt
from runyard.server.http.responses import Json
from runyard.server.http.routes import Media, Routes
from runyard.server.http.streams import wait_for_newer
from runyard.server.services import CallerDep, ServicesDep

lineage_routes = Routes("/workspaces/{workspace}/models", tag="model_lineage")


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
    """NAME:VERSION."""
    run: ModelsRun | None
    """Null for a model that was registered from files, and where its run is gone."""
    datasets: list[ReadDataset | NamedDataset]
    services: list[ModelsService]


@lineage_routes.get("/{name}/lineage", Action.READ_ASSET, LineageOfModel)
def model_lineage(
    services: ServicesDep, who: CallerDep, workspace: str, name: str, version: QueryInt | None = None
) -> Response:
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


package_routes = Routes("/workspaces/{workspace}", tag="packaging")
_MOST = 1e6


@dataclass(frozen=True)
class Package:
    id: str
    state: str
    """Running, Succeeded or Failed."""
    error: Mapping[str, Any] | None
    """`problem`, `hint` and other facts of a failure."""
    models: Sequence[str]
    log: str
    created_at: datetime
    created_by: str


@dataclass(frozen=True)
class ProfileResults:
    requests: int
    succeeded: int
    failed: int
    first_failure: str
    success_rate: float
    """In percent."""
    seconds: float
    queries_per_second: float
    latency_ms: Mapping[str, float]
    """average, p50, p90, p95, p99, p99_9 and max; empty where no request succeeded."""
    peak_memory_bytes: int
    cpu_seconds: float
    average_cpu: float
    """In cores."""
    peak_cpu: float
    recommended_cpu: float
    recommended_memory_in_gb: float


@dataclass(frozen=True)
class Profile:
    name: str
    version: int
    """Grows with every change."""
    state: str
    """Running, Succeeded or Failed."""
    error: Mapping[str, Any] | None
    """`problem`, `hint`, and for a failed deployment `step`, `traceback` and `logs`."""
    log: str
    created_at: datetime
    created_by: str
    models: Sequence[str]
    description: str
    dataset_id: str
    cpu: float | None
    memory_in_gb: float | None
    results: ProfileResults | None
    """Null while it runs, and where the model could not be deployed."""


class ProfileBody(Deployment):
    name: str = Field(examples=["digits-profile"])
    rows: list[str] | None = Field(None, examples=[['{"data": [[1, 2]]}']])
    """Bodies of requests."""
    dataset_id: str | None = None
    """Dataset whose lines are the bodies, where no rows are given."""
    cpu: float | None = Field(None, gt=0, le=_MOST)
    memory_in_gb: float | None = Field(None, gt=0, le=_MOST)
    description: str | None = None


@package_routes.post("/packages", Action.DEPLOY, Package)
def create_package(services: ServicesDep, who: CallerDep, workspace: str, body: Deployment) -> Response:
    """Package models into a folder that runs without Runyard. Ends at once where the environment is cached."""
    return Json(_package(services.packages.create(who, workspace, body.spec())))


@package_routes.get("/packages/{package_id}", Action.READ_ASSET, Package)
def get_package(services: ServicesDep, who: CallerDep, workspace: str, package_id: str) -> Response:
    """One package."""
    return Json(_package(services.packages.get(who, workspace, package_id)))


@package_routes.get("/packages/{package_id}/zip", Action.READ_ASSET, Media("application/zip", "The folder."))
def get_package_zip(services: ServicesDep, who: CallerDep, workspace: str, package_id: str) -> Response:
    """The package as a zip. 409 while it is being made, and where it failed."""
    folder = services.packages.folder(who, workspace, package_id)
    return StreamingResponse(stream_zip(folder), media_type="application/zip")


@package_routes.post("/profiles", Action.DEPLOY, Profile)
def create_profile(services: ServicesDep, who: CallerDep, workspace: str, body: ProfileBody) -> Response:
    """Begin to measure the CPU, memory and latency of models."""
    new = NewProfile(
        name=body.name,
        spec=body.spec(),
        rows=body.rows or (),
        dataset_id=body.dataset_id or "",
        cpu=body.cpu,
        memory_in_gb=body.memory_in_gb,
        description=body.description or "",
    )
    return Json(_profile(services.profiles.create(who, workspace, new)))


@package_routes.get("/profiles/{name}", Action.READ_ASSET, Profile)
def get_profile(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """One profile."""
    return Json(_profile(services.profiles.get(who, workspace, name)))


@package_routes.get("/profiles/{name}/wait", Action.READ_ASSET, Profile)
async def wait_for_profile(
    services: ServicesDep, who: CallerDep, workspace: str, name: str, version: QueryInt = 0, timeout: float = 30.0
) -> Response:
    """Long poll: the profile, once its version is above the given one or after `timeout` seconds (at most 60)."""

    def read(seconds: float) -> Profile:
        return _profile(services.profiles.wait(who, workspace, name, version, seconds))

    return Json(await wait_for_newer(services, read, version, timeout))


def _package(found: WorkRecord) -> Package:
    asset, body = found.asset, found.asset.body
    return Package(
        id=asset.name,
        state=body["state"],
        error=body["error"],
        models=body["models"],
        log=found.log,
        created_at=asset.created_at,
        created_by=asset.created_by,
    )


def _profile(found: WorkRecord) -> Profile:
    asset, body = found.asset, found.asset.body
    return Profile(
        name=asset.name,
        version=asset.revision,
        state=body["state"],
        error=body["error"],
        log=found.log,
        created_at=asset.created_at,
        created_by=asset.created_by,
        models=body["models"],
        description=body["description"],
        dataset_id=body["dataset_id"],
        cpu=body["cpu"],
        memory_in_gb=body["memory_in_gb"],
        results=None if body["results"] is None else _results(body["results"]),
    )


def _results(stored: Mapping[str, Any]) -> ProfileResults:
    return ProfileResults(
        requests=stored["requests"],
        succeeded=stored["succeeded"],
        failed=stored["failed"],
        first_failure=stored["first_failure"],
        success_rate=stored["success_rate"],
        seconds=stored["seconds"],
        queries_per_second=stored["queries_per_second"],
        latency_ms=stored["latency_ms"],
        peak_memory_bytes=stored["peak_memory_bytes"],
        cpu_seconds=stored["cpu_seconds"],
        average_cpu=stored["average_cpu"],
        peak_cpu=stored["peak_cpu"],
        recommended_cpu=stored["recommended_cpu"],
        recommended_memory_in_gb=stored["recommended_memory_in_gb"],
    )
