from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json, Nothing
from runyard.http.auth import workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.http.fields import text

router = APIRouter(prefix="/workspaces/{workspace}/secrets", dependencies=[Depends(workspace_access)])


@router.get("")
def list_secrets(services: Use, workspace: str) -> Response:
    return Json({"secrets": [{"name": name} for name in services.secrets.names(workspace)]})


@router.get("/{name}")
def get_secret(services: Use, workspace: str, name: str) -> Response:
    answer = Json({"value": services.secrets.get(workspace, name)})
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.put("/{name}")
def put_secret(services: Use, workspace: str, name: str, body: JsonBody) -> Response:
    services.secrets.put(workspace, name, text(body, "value"))
    return Nothing()


@router.delete("/{name}")
def delete_secret(services: Use, workspace: str, name: str) -> Response:
    services.secrets.delete(workspace, name)
    return Nothing()
