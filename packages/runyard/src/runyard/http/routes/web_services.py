from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from runyard.errors import Json as JsonObject
from runyard.http.answers import Bytes, Json, Nothing
from runyard.http.auth import workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Services, Use
from runyard.http.definitions import deployment_definition
from runyard.http.fields import flag, mapping, strings, text
from runyard.http.numbers import Counting, Whole
from runyard.http.routes.runs import wanted_tags
from runyard.http.waiting import newer_record
from runyard.model.assets import Asset
from runyard.services.web_services.web_services import NewService, Wanted

router = APIRouter(prefix="/workspaces/{workspace}/services", dependencies=[Depends(workspace_access)])
lineage = APIRouter(prefix="/workspaces/{workspace}/models", dependencies=[Depends(workspace_access)])
LARGEST_LOG_PIECE = 16 * 1024 * 1024
Texts = Annotated[Sequence[str], Query()]


@router.post("")
def deploy(services: Use, workspace: str, body: JsonBody) -> Response:
    new = new_service(body, text(body, "type", "ACI"))
    is_endpoint = mapping(body, "config").get("version_name") is not None
    deploy = services.endpoints.deploy if is_endpoint else services.web_services.deploy
    return Json(services.service_records.whole(deploy(workspace, new)))


@router.get("")
def listing(
    services: Use,
    workspace: str,
    type: str | None = None,
    model: str | None = None,
    image: str | None = None,
    tag: Texts = (),
    property: Texts = (),
) -> Response:
    wanted = Wanted(type, model, image, wanted_tags(tag), wanted_tags(property))
    found = services.web_services.list(workspace, wanted)
    return Json({"services": [services.service_records.short(service) for service in found]})


@router.get("/{name}")
def get(services: Use, workspace: str, name: str) -> Response:
    return Json(services.service_records.whole(services.web_services.get(workspace, name)))


@router.get("/{name}/wait")
async def wait(services: Use, workspace: str, name: str, version: Whole = 0, timeout: float = 30.0) -> Response:
    def look(seconds: float) -> JsonObject:
        return services.service_records.wait(services.web_services.get(workspace, name), version, seconds)

    return Json(await newer_record(services, look, version, timeout))


@router.patch("/{name}")
def change(services: Use, workspace: str, name: str, body: JsonBody) -> Response:
    return Json(services.service_records.whole(services.web_services.change(workspace, name, changes_in(body))))


@router.post("/{name}/reload")
def reload(services: Use, workspace: str, name: str) -> Response:
    return Json(services.service_records.whole(services.web_services.reload(workspace, name)))


@router.delete("/{name}")
def delete(services: Use, workspace: str, name: str) -> Response:
    services.web_services.delete(workspace, name)
    return Nothing()


@router.get("/{name}/logs")
def logs(
    services: Use,
    workspace: str,
    name: str,
    offset: Whole = 0,
    limit: Counting = LARGEST_LOG_PIECE,
    lines: Counting | None = None,
) -> Response:
    return log_piece(services, services.web_services.get(workspace, name), offset, limit, lines)


@router.get("/{name}/keys")
def keys(services: Use, workspace: str, name: str) -> Response:
    return _unstored(Json(services.service_keys.get(workspace, name)))


@router.post("/{name}/keys")
def renew_key(services: Use, workspace: str, name: str, body: JsonBody) -> Response:
    value = None if body.get("value") is None else text(body, "value")
    return _unstored(Json(services.service_keys.renew(workspace, name, text(body, "key"), value)))


@router.post("/{name}/token")
def token(services: Use, workspace: str, name: str) -> Response:
    return _unstored(Json(services.service_keys.sign(workspace, name)))


@router.get("/{name}/metrics")
def metrics(services: Use, workspace: str, name: str) -> Response:
    return Json(services.service_records.metrics(services.web_services.get(workspace, name)))


@lineage.get("/{name}/lineage")
def model_lineage(services: Use, workspace: str, name: str, version: Whole | None = None) -> Response:
    found = services.model_lineages.of(workspace, name, version)
    records = [services.service_records.short(service) for service in found.services]
    return Json(
        {
            "model": f"{found.model.name}:{found.model.version}",
            "run": found.run
            and {
                "id": found.run.id,
                "experiment": found.run.experiment,
                "status": found.run.status,
                "script": found.run.definition.get("script"),
                "snapshot_id": found.run.snapshot_id,
                "lock": found.run.environment_lock or None,
            },
            "datasets": found.datasets,
            "services": [{key: record[key] for key in ("name", "state", "type")} for record in records],
        }
    )


def new_service(body: JsonObject, type: str) -> NewService:
    return NewService(
        name=text(body, "name"),
        definition=deployment_definition(body) | {"type": type},
        description=text(body, "description", ""),
        tags=strings(body, "tags"),
        properties=strings(body, "properties"),
        overwrite=flag(body, "overwrite"),
    )


def changes_in(body: JsonObject) -> JsonObject:
    return deployment_definition(body) | {
        "description": None if body.get("description") is None else text(body, "description"),
        "tags": changed_tags(body),
        "properties": strings(body, "properties"),
    }


def log_piece(services: Services, service: Asset, offset: int, limit: int, lines: int | None) -> Bytes:
    """Its last lines, or the bytes from an offset on."""
    if lines is not None:
        data, behind = services.service_records.last_lines(service, lines)
    else:
        data, behind = services.service_records.log(service, offset, min(limit, LARGEST_LOG_PIECE))
    return Bytes(data, headers={"X-Runyard-Offset": str(behind), "X-Content-Type-Options": "nosniff"})


def changed_tags(body: JsonObject) -> dict[str, str | None]:
    """A null removes."""
    return {**{key: None for key, value in mapping(body, "tags").items() if value is None}, **strings(body, "tags")}


def _unstored(answer: Json) -> Json:
    answer.headers["Cache-Control"] = "no-store"
    return answer
