from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from runyard.core.policy import Action
from runyard.http.answers import Json
from runyard.http.context import Use, Who
from runyard.http.definitions import Deployment
from runyard.http.numbers import Whole
from runyard.http.routing import Media, Routes
from runyard.http.waiting import newer_record
from runyard.http.zips import zipped
from runyard.services.model_work.profiling import NewProfile
from runyard.services.model_work.recorded_work import Recorded

routes = Routes("/workspaces/{workspace}", tag="packaging")
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


@routes.post("/packages", Action.DEPLOY, Package)
def create_package(services: Use, who: Who, workspace: str, body: Deployment) -> Response:
    """Package models into a folder that runs without Runyard. Ends at once where the environment is cached."""
    return Json(_package(services.packages.create(who, workspace, body.spec())))


@routes.get("/packages/{package_id}", Action.READ_ASSET, Package)
def get_package(services: Use, who: Who, workspace: str, package_id: str) -> Response:
    """One package."""
    return Json(_package(services.packages.get(who, workspace, package_id)))


@routes.get("/packages/{package_id}/zip", Action.READ_ASSET, Media("application/zip", "The folder."))
def get_package_zip(services: Use, who: Who, workspace: str, package_id: str) -> Response:
    """The package as a zip. 409 while it is being made, and where it failed."""
    folder = services.packages.folder(who, workspace, package_id)
    return StreamingResponse(zipped(folder), media_type="application/zip")


@routes.post("/profiles", Action.DEPLOY, Profile)
def create_profile(services: Use, who: Who, workspace: str, body: ProfileBody) -> Response:
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


@routes.get("/profiles/{name}", Action.READ_ASSET, Profile)
def get_profile(services: Use, who: Who, workspace: str, name: str) -> Response:
    """One profile."""
    return Json(_profile(services.profiles.get(who, workspace, name)))


@routes.get("/profiles/{name}/wait", Action.READ_ASSET, Profile)
async def wait_for_profile(
    services: Use, who: Who, workspace: str, name: str, version: Whole = 0, timeout: float = 30.0
) -> Response:
    """Long poll: the profile, once its version is above the given one or after `timeout` seconds (at most 60)."""

    def read(seconds: float) -> Profile:
        return _profile(services.profiles.wait(who, workspace, name, version, seconds))

    return Json(await newer_record(services, read, version, timeout))


def _package(found: Recorded) -> Package:
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


def _profile(found: Recorded) -> Profile:
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
