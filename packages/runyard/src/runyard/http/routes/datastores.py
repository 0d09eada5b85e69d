from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json, file_answer
from runyard.http.auth import workspace_access
from runyard.http.bodies import BodyPieces, JsonBody
from runyard.http.context import Use, Who
from runyard.http.fields import flag, pairs
from runyard.services.tokens import Role

router = APIRouter(prefix="/workspaces/{workspace}/datastores/{name}", dependencies=[Depends(workspace_access)])


@router.get("/files")
def list_files(services: Use, workspace: str, name: str, prefix: str = "") -> Response:
    return Json({"files": services.datastores.list(workspace, name, prefix)})


@router.head("/files/{path:path}")
def head_file(services: Use, workspace: str, name: str, path: str) -> Response:
    return file_answer(services.datastores.open(workspace, name, path), path)


@router.get("/files/{path:path}")
def get_file(services: Use, workspace: str, name: str, path: str) -> Response:
    return file_answer(services.datastores.open(workspace, name, path), path)


@router.put("/files/{path:path}")
def put_file(
    services: Use, workspace: str, name: str, path: str, pieces: BodyPieces, overwrite: bool = False
) -> Response:
    return Json({"size": services.datastores.put(workspace, name, path, pieces, overwrite=overwrite)})


@router.post("/adopt")
def adopt(services: Use, who: Who, workspace: str, name: str, body: JsonBody) -> Response:
    written, skipped = services.datastores.adopt(
        workspace, name, pairs(body, "items"), overwrite=flag(body, "overwrite"), anywhere=who.role is Role.OWNER
    )
    return Json({"written": written, "skipped": skipped})
