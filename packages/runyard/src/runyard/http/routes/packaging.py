from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import Response, StreamingResponse

from runyard.errors import InvalidArgument
from runyard.http.answers import Json
from runyard.http.auth import workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.http.definitions import deployment_definition
from runyard.http.fields import names, text
from runyard.http.numbers import Whole
from runyard.http.waiting import newer_record
from runyard.http.zips import zipped
from runyard.services.model_work.profiling import NewProfile
from runyard.services.model_work.recorded_work import Recorded

router = APIRouter(prefix="/workspaces/{workspace}", dependencies=[Depends(workspace_access)])


@router.post("/packages")
def create_package(services: Use, workspace: str, body: JsonBody) -> Response:
    return Json(_package(services.packages.create(workspace, deployment_definition(body))))


@router.get("/packages/{package_id}")
def get_package(services: Use, workspace: str, package_id: str) -> Response:
    return Json(_package(services.packages.get(workspace, package_id)))


@router.get("/packages/{package_id}/zip")
def get_package_zip(services: Use, workspace: str, package_id: str) -> Response:
    entries = services.packages.files(workspace, package_id)

    def opened() -> Iterator[bytes]:
        yield from zipped(entries, services.blobs.read)

    return StreamingResponse(opened(), media_type="application/zip")


@router.post("/profiles")
def create_profile(services: Use, workspace: str, body: JsonBody) -> Response:
    new = NewProfile(
        name=text(body, "name"),
        definition=deployment_definition(body),
        rows=names(body, "rows") if body.get("rows") is not None else (),
        dataset_id=text(body, "dataset_id", ""),
        cpu=_number(body, "cpu"),
        memory_in_gb=_number(body, "memory_in_gb"),
        description=text(body, "description", ""),
    )
    return Json(_profile(services.profiles.create(workspace, new)))


@router.get("/profiles/{name}")
def get_profile(services: Use, workspace: str, name: str) -> Response:
    return Json(_profile(services.profiles.get(workspace, name)))


@router.get("/profiles/{name}/wait")
async def wait_for_profile(
    services: Use, workspace: str, name: str, version: Whole = 0, timeout: float = 30.0
) -> Response:
    def look(seconds: float) -> dict[str, Any]:
        return _profile(services.profiles.wait(workspace, name, version, seconds))

    return Json(await newer_record(services, look, version, timeout))


def _package(found: Recorded) -> dict[str, Any]:
    body = found.asset.body
    told = {field: body[field] for field in ("state", "error", "models")}
    return {"id": found.asset.name, **told, "log": found.log, "created_at": found.asset.created_at}


def _profile(found: Recorded) -> dict[str, Any]:
    asset = found.asset
    return {
        **asset.body,
        "name": asset.name,
        "version": asset.revision,
        "created_at": asset.created_at,
        "log": found.log,
    }


def _number(body: dict[str, Any], name: str) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise InvalidArgument(f"{name} must be a number above 0, got {ascii(value)[:80]}.")
    return float(value)
