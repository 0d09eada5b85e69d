from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json
from runyard.http.auth import owner_only, same_machine, workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use, Who
from runyard.http.fields import flag, mapping, pairs, text
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


@router.post("/{name}/adopt", dependencies=[Depends(same_machine)])
def adopt(services: Use, who: Who, workspace: str, name: str, body: JsonBody) -> Response:
    written, skipped = services.store_files.adopt(
        workspace, name, pairs(body, "items"), overwrite=flag(body, "overwrite"), attempt_id=who.attempt_id
    )
    return Json({"written": written, "skipped": skipped})
