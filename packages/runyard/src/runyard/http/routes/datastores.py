from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from runyard.http.answers import Json, Nothing, file_answer, head_answer
from runyard.http.auth import owner_only, workspace_access
from runyard.http.bodies import BodyPieces, JsonBody
from runyard.http.context import Use, Who
from runyard.http.fields import flag, mapping, pairs, text
from runyard.http.paths import PATH
from runyard.http.records import shown_asset
from runyard.services.data.datastores import NewDatastore
from runyard.services.tokens import Role

router = APIRouter(prefix="/workspaces/{workspace}/datastores", dependencies=[Depends(workspace_access)])


@router.post("")
def register(services: Use, who: Who, workspace: str, body: JsonBody) -> Response:
    new = NewDatastore(
        name=text(body, "name"),
        kind=text(body, "kind"),
        settings=mapping(body, "settings"),
        credentials=mapping(body, "credentials"),
        overwrite=flag(body, "overwrite"),
        create_if_not_exists=flag(body, "create_if_not_exists"),
        skip_validation=flag(body, "skip_validation"),
    )
    return Json(shown_asset(services.datastores.register(workspace, new, by_owner=who.role is Role.OWNER)))


@router.get("/{name}/credentials", dependencies=[Depends(owner_only)])
def credentials(services: Use, workspace: str, name: str) -> Response:
    answer = Json(services.datastores.credentials(workspace, name))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get("/{name}/files")
def list_files(services: Use, workspace: str, name: str, prefix: str = "") -> Response:
    files = services.store_files.list(workspace, name, prefix)
    return Json({"files": [{"path": f.path, "size": f.size, "modified_at": f.modified_at} for f in files]})


@router.head(f"/{{name}}/files/{PATH}")
def head_file(services: Use, workspace: str, name: str, path: str) -> Response:
    file = services.store_files.stat(workspace, name, path)
    return head_answer(file.size, file.etag)


@router.get(f"/{{name}}/files/{PATH}")
def get_file(services: Use, request: Request, workspace: str, name: str, path: str) -> Response:
    content = services.store_files.open(workspace, name, path)
    return file_answer(content, path, range=request.headers.get("range"))


@router.put(f"/{{name}}/files/{PATH}")
def put_file(
    services: Use, workspace: str, name: str, path: str, pieces: BodyPieces, overwrite: bool = False
) -> Response:
    return Json({"size": services.store_files.put(workspace, name, path, pieces, overwrite=overwrite)})


@router.delete(f"/{{name}}/files/{PATH}")
def delete_file(services: Use, workspace: str, name: str, path: str) -> Response:
    services.store_files.delete(workspace, name, path)
    return Nothing()


@router.post("/{name}/adopt")
def adopt(services: Use, who: Who, workspace: str, name: str, body: JsonBody) -> Response:
    written, skipped = services.store_files.adopt(
        workspace, name, pairs(body, "items"), overwrite=flag(body, "overwrite"), anywhere=who.role is Role.OWNER
    )
    return Json({"written": written, "skipped": skipped})
