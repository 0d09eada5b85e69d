from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from runyard.core.definitions.fields import JsonObject
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.http.answers import Bytes, Json, Nothing
from runyard.http.context import Services, Use, Who
from runyard.http.definitions import Deployment
from runyard.http.models import Body, ChangedTexts, Texts
from runyard.http.numbers import Counting, Whole
from runyard.http.routes.runs import wanted_tags
from runyard.http.routing import Media, Routes
from runyard.http.waiting import newer_record
from runyard.model.assets import Asset
from runyard.services.web_services.keys import Keys, SignedToken
from runyard.services.web_services.shown import (
    EndpointMetrics,
    EndpointRecord,
    NoMetrics,
    ServiceMetrics,
    ServiceRecord,
)
from runyard.services.web_services.web_services import NewService, ServiceChanges, Wanted

routes = Routes("/workspaces/{workspace}/services", tag="web_services")
LARGEST_LOG_PIECE = 16 * 1024 * 1024
LOG = Media("application/octet-stream", "Bytes of the log; `X-Runyard-Offset` is the offset behind them.")
Record = EndpointRecord | ServiceRecord
Words = Annotated[Sequence[str], Query()]


@dataclass(frozen=True)
class ServiceList:
    services: list[Record]


class Deployed(Deployment):
    """Fields that web services and versions of endpoints share."""

    config: dict[str, Any] | None = Field(None, examples=[{"cpu_cores": 1, "auth_enabled": True}])
    """Parameters of deploy_configuration by their names; files of PEM form as their texts, ssl_cert_pem and
    ssl_key_pem."""
    image_id: str | None = Field(None, examples=["digits-image:1"])
    """Image with the models and the script."""
    description: str | None = None
    properties: Texts = Field({})

    def given(self) -> JsonObject:
        return {**super().given(), "config": self.config, "image_id": self.image_id}


class NewVersion(Deployed):
    name: str = Field(examples=["digits"])
    tags: Texts = Field({})


class NewWebService(NewVersion):
    type: str | None = Field(None, examples=["ACI"])
    """ACI (the default), AKS or Local. AKS with version_name in its config makes an endpoint."""
    overwrite: bool = False
    """Replace the one of that name; the old workers answer until the new ones are ready."""


class ChangedService(Deployed):
    """Fields that are left out stay. `config` is merged, properties are added."""

    tags: ChangedTexts = Field({})


class RenewedKey(Body):
    key: str = Field(examples=["Primary"])
    """Primary or Secondary."""
    value: str | None = None
    """The new key; random where it is not given."""


@routes.post("", Action.DEPLOY, Record)
def deploy(services: Use, who: Who, workspace: str, body: NewWebService) -> Response:
    """Begin to deploy models as a web service."""
    new = new_service(body, type=body.type or "ACI", overwrite=body.overwrite)
    is_endpoint = (body.config or {}).get("version_name") is not None
    deploy = services.endpoints.deploy if is_endpoint else services.web_services.deploy
    return Json(services.service_records.whole(who, deploy(who, workspace, new)))


@routes.get("", Action.READ_ASSET, ServiceList)
def listing(
    services: Use,
    who: Who,
    workspace: str,
    type: str | None = None,
    model: str | None = None,
    image: str | None = None,
    tag: Words = (),
    property: Words = (),
    created_by: str | None = None,
) -> Response:
    """List web services. Model and image are NAME or NAME:VERSION, a tag is KEY or KEY=VALUE."""
    wanted = Wanted(type, model, image, wanted_tags(tag), wanted_tags(property), created_by)
    found = services.web_services.list(who, workspace, wanted)
    return Json(ServiceList([services.service_records.short(who, service) for service in found]))


@routes.get("/{name}", Action.READ_ASSET, Record)
def get(services: Use, who: Who, workspace: str, name: str) -> Response:
    """One web service."""
    return Json(services.service_records.whole(who, services.web_services.get(who, workspace, name)))


@routes.get("/{name}/wait", Action.READ_ASSET, Record)
async def wait(
    services: Use, who: Who, workspace: str, name: str, version: Whole = 0, timeout: float = 30.0
) -> Response:
    """Long poll: the web service, once its version is above the given one or after `timeout` seconds (at most 60)."""

    def read(seconds: float) -> ServiceRecord:
        found = services.web_services.get(who, workspace, name)
        return services.service_records.wait(who, found, version, seconds)

    return Json(await newer_record(services, read, version, timeout))


@routes.patch("/{name}", Action.CHANGE_DEPLOYMENT, Record)
def change(services: Use, who: Who, workspace: str, name: str, body: ChangedService) -> Response:
    """Change a web service. Starts new workers only where the change needs them."""
    changed = services.web_services.change(who, workspace, name, changes_in(body))
    return Json(services.service_records.whole(who, changed))


@routes.post("/{name}/reload", Action.CHANGE_DEPLOYMENT, Record)
def reload(services: Use, who: Who, workspace: str, name: str) -> Response:
    """Restart the workers from the same files."""
    return Json(services.service_records.whole(who, services.web_services.reload(who, workspace, name)))


@routes.delete("/{name}", Action.CHANGE_DEPLOYMENT)
def delete(services: Use, who: Who, workspace: str, name: str) -> Response:
    """Delete a web service; quiet where there is none."""
    services.web_services.delete(who, workspace, name)
    return Nothing()


@routes.get("/{name}/logs", Action.READ_ASSET, LOG)
def logs(
    services: Use,
    who: Who,
    workspace: str,
    name: str,
    offset: Whole = 0,
    limit: Counting = LARGEST_LOG_PIECE,
    lines: Counting | None = None,
) -> Response:
    """The log of a web service: bytes from an offset on, or the last lines."""
    return log_piece(services, who, services.web_services.get(who, workspace, name), offset, limit, lines)


@routes.get("/{name}/keys", Action.READ_KEYS, Keys)
def keys(services: Use, who: Who, workspace: str, name: str) -> Response:
    """Both keys of a web service. 409 where it needs none."""
    return _unstored(Json(services.service_keys.get(who, workspace, name)))


@routes.post("/{name}/keys", Action.RENEW_KEYS, Keys)
def renew_key(services: Use, who: Who, workspace: str, name: str, body: RenewedKey) -> Response:
    """Replace a key. Tokens signed before are refused afterwards."""
    return _unstored(Json(services.service_keys.renew(who, workspace, name, body.key, body.value)))


@routes.post("/{name}/token", Action.READ_KEYS, SignedToken)
def token(services: Use, who: Who, workspace: str, name: str) -> Response:
    """Sign a token that expires, for a web service with token authentication."""
    return _unstored(Json(services.service_keys.sign(who, workspace, name)))


@routes.get("/{name}/metrics", Action.READ_ASSET, EndpointMetrics | ServiceMetrics | NoMetrics)
def metrics(services: Use, who: Who, workspace: str, name: str) -> Response:
    """Requests, queue and workers of a web service; empty while the gateway does not answer."""
    return Json(services.service_records.metrics(who, services.web_services.get(who, workspace, name)))


def new_service(body: NewVersion, *, type: str, overwrite: bool = False) -> NewService:
    return NewService(
        name=body.name,
        spec=body.spec(type=type),
        description=body.description or "",
        tags=body.tags,
        properties=body.properties,
        overwrite=overwrite,
    )


def changes_in(body: ChangedService) -> ServiceChanges:
    return ServiceChanges(body.spec(), body.description, body.tags, body.properties)


def log_piece(services: Services, who: Principal, service: Asset, offset: int, limit: int, lines: int | None) -> Bytes:
    """Response with the last lines of a log, or its bytes from an offset on."""
    if lines is not None:
        data, behind = services.service_records.last_lines(who, service, lines)
    else:
        data, behind = services.service_records.log(who, service, offset, min(limit, LARGEST_LOG_PIECE))
    return Bytes(data, headers={"X-Runyard-Offset": str(behind), "X-Content-Type-Options": "nosniff"})


def _unstored(answer: Json) -> Json:
    answer.headers["Cache-Control"] = "no-store"
    return answer
