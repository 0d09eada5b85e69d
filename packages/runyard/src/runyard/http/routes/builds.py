from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from runyard.http.answers import Bytes, Json
from runyard.http.auth import workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.http.fields import entries, flag, mapping
from runyard.http.numbers import Whole
from runyard.http.stream import wait_for_change
from runyard.model.runs import RunId
from runyard.services.builds import NewBuild, build_record

LONGEST_WAIT_SECONDS = 60.0
ANSWER_WITHIN_SECONDS = 1.0
"""How long a build that may be in the cache is waited for, so that it has succeeded at once."""

router = APIRouter(prefix="/workspaces/{workspace}", dependencies=[Depends(workspace_access)])


@router.post("/builds")
async def create_build(services: Use, workspace: str, body: JsonBody) -> Response:
    new = NewBuild(
        environment=mapping(body, "environment"),
        files=entries(body, "files") if body.get("files") is not None else (),
        submitter=mapping(body, "submitter"),
        force=flag(body, "force"),
    )
    begun = await run_in_threadpool(services.builds.create, workspace, new)
    seen = await wait_for_change(services, begun.id, begun.version, ANSWER_WITHIN_SECONDS)
    return Json(build_record(seen))


@router.get("/builds/{build_id}")
def get_build(services: Use, workspace: str, build_id: str) -> Response:
    return Json(build_record(services.builds.get(workspace, build_id)))


@router.get("/builds/{build_id}/wait")
async def wait_for_build(
    services: Use, workspace: str, build_id: str, version: Whole = 0, timeout: float = 30.0
) -> Response:
    await run_in_threadpool(services.builds.get, workspace, build_id)
    seconds = min(max(0.0, timeout), LONGEST_WAIT_SECONDS)
    return Json(build_record(await wait_for_change(services, RunId(build_id), version, seconds)))


@router.get("/builds/{build_id}/log")
def get_build_log(services: Use, workspace: str, build_id: str, offset: Whole = 0) -> Response:
    return Bytes(services.builds.log(workspace, build_id, offset))


@router.get("/environments/{name}/image")
def get_image(services: Use, workspace: str, name: str, version: Whole | None = None) -> Response:
    services.assets.get(workspace, "environments", name, version)
    return Json(services.built_environments.image(workspace, name, version))
