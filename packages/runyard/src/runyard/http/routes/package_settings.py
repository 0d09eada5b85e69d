from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json
from runyard.http.auth import owner_only, workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.planning.package_settings import settings_to_json, shown_settings

router = APIRouter(prefix="/workspaces/{workspace}", dependencies=[Depends(workspace_access)])


@router.get("/packages")
def get_settings(services: Use, workspace: str) -> Response:
    return Json(settings_to_json(shown_settings(services.package_settings.get(workspace))))


@router.put("/packages", dependencies=[Depends(owner_only)])
def put_settings(services: Use, workspace: str, body: JsonBody) -> Response:
    """Not for scripts: whoever chooses where packages come from chooses what runs of others are made of."""
    changed = services.package_settings.change(workspace, body)
    return Json(settings_to_json(shown_settings(changed)))
