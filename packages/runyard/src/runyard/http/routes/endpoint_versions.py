from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json, Nothing
from runyard.http.auth import workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.http.numbers import Counting, Whole
from runyard.http.routes.web_services import LARGEST_LOG_PIECE, changes_in, log_piece, new_service

router = APIRouter(
    prefix="/workspaces/{workspace}/services/{endpoint}/versions", dependencies=[Depends(workspace_access)]
)


@router.post("")
def create(services: Use, workspace: str, endpoint: str, body: JsonBody) -> Response:
    changed = services.endpoints.add_version(workspace, endpoint, new_service(body, "AKS"))
    return Json(services.service_records.whole(changed))


@router.patch("/{version}")
def change(services: Use, workspace: str, endpoint: str, version: str, body: JsonBody) -> Response:
    changed = services.endpoints.change_version(workspace, endpoint, version, changes_in(body))
    return Json(services.service_records.whole(changed))


@router.delete("/{version}")
def delete(services: Use, workspace: str, endpoint: str, version: str) -> Response:
    services.endpoints.remove_version(workspace, endpoint, version)
    return Nothing()


@router.get("/{version}/logs")
def logs(
    services: Use,
    workspace: str,
    endpoint: str,
    version: str,
    offset: Whole = 0,
    limit: Counting = LARGEST_LOG_PIECE,
    lines: Counting | None = None,
) -> Response:
    return log_piece(services, services.endpoints.version(workspace, endpoint, version), offset, limit, lines)
