import json
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from runyard.errors import InvalidArgument
from runyard.errors import Json as JsonObject
from runyard.http.answers import Json, file_answer
from runyard.http.auth import is_from_outside, workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Services, Use, Who
from runyard.http.fields import flag, mapping, strings, text, whole_number
from runyard.http.paths import PATH
from runyard.http.records import shown_asset
from runyard.http.routes.assets import noted
from runyard.model.assets import Asset
from runyard.planning.data_json import data_to_json
from runyard.planning.data_steps import FoundFile
from runyard.services.data.datasets import NewDataset
from runyard.services.tokens import Caller, Role

NETWORK_HEADER = "X-Runyard-Network"
router = APIRouter(prefix="/workspaces/{workspace}/datasets", dependencies=[Depends(workspace_access)])


@router.post("")
def save(services: Use, workspace: str, body: JsonBody) -> Response:
    return Json(shown_asset(services.datasets.save(workspace, new_dataset(body))))


@router.post("/resolve")
def resolve(services: Use, who: Who, workspace: str, body: JsonBody) -> Response:
    variables = strings(body, "variables")
    if body.get("id") is None:
        most = whole_number(body, "limit", least=1) if body.get("limit") is not None else None
        resolved, changes = services.datasets.resolve(workspace, mapping(body, "body"), variables, most), []
    else:
        seen = services.datasets.look_now(found(services, who, workspace, text(body, "id")), variables)
        resolved, changes = seen.resolved, list(seen.changes)
    files = [_shown_file(file) for file in resolved.files]
    return Json({"files": files, "is_one_file": resolved.is_one_file, "changes": changes})


@router.get(f"/by-id/{{dataset_id}}/files/{PATH}")
def get_file(services: Use, who: Who, request: Request, workspace: str, dataset_id: str, path: str) -> Response:
    content = services.datasets.open(workspace, dataset_id, path, _network(request))
    if who.role is Role.RUN:
        found(services, who, workspace, dataset_id)
    return file_answer(content, path, range=request.headers.get("range"))


@router.get("/by-id/{dataset_id}/access")
def access(services: Use, who: Who, request: Request, workspace: str, dataset_id: str, apart: bool = False) -> Response:
    dataset = found(services, who, workspace, dataset_id)
    is_apart = apart or is_from_outside(request)
    answer = Json(data_to_json(services.attempt_data.of_dataset(dataset, is_apart=is_apart)))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get("/by-id/{dataset_id}/lineage")
def lineage(services: Use, workspace: str, dataset_id: str) -> Response:
    runs, models = services.lineage.of_dataset(services.datasets.get(workspace, dataset_id))
    return Json({"runs": runs, "models": models})


def _network(request: Request) -> dict[str, str]:
    """Proxies and certificates of the client."""
    try:
        given = json.loads(request.headers.get(NETWORK_HEADER, "{}"))
    except (ValueError, RecursionError):
        raise InvalidArgument(f"{NETWORK_HEADER} must be an object of strings, in JSON.") from None
    return strings({NETWORK_HEADER: given}, NETWORK_HEADER)


def new_dataset(body: JsonObject) -> NewDataset:
    return NewDataset(
        name=text(body, "name", ""),
        body=mapping(body, "body"),
        tags=strings(body, "tags"),
        validate=flag(body, "validate", default=True),
        create_new_version=flag(body, "create_new_version"),
        variables=strings(body, "variables"),
    )


def found(services: Services, who: Caller, workspace: str, dataset_id: str) -> Asset:
    return noted(services, who, services.datasets.get(workspace, dataset_id))


def _shown_file(file: FoundFile) -> dict[str, Any]:
    return {
        "path": file.source.path,
        "store": file.source.store,
        "key": file.source.key,
        "size": file.source.size,
        "etag": file.source.etag,
        "modified_at": file.stored.modified_at,
    }
