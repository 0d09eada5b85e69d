from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.definitions.fields import JsonObject
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset
from runyard.server.api.runs import parse_tag_filters
from runyard.server.http.models import Body, ChangedTexts, Entry, Texts
from runyard.server.http.parameters import QueryCount, QueryInt
from runyard.server.http.responses import Bytes, Json, NoContent, not_cached
from runyard.server.http.routes import Media, Routes
from runyard.server.http.streams import wait_for_newer
from runyard.server.services import CallerDep, Services, ServicesDep
from runyard.serving.deployments.keys import Keys, SignedToken
from runyard.serving.deployments.records import (
    EndpointMetrics,
    EndpointRecord,
    NoMetrics,
    ServiceMetrics,
    ServiceRecord,
)
from runyard.serving.deployments.web_services import NewService, ServiceChanges, ServiceFilter


class Inference(Body):
    """A scoring script, as InferenceConfig sends it."""

    entry_script: str = Field(examples=["score.py"])
    """Path of the script in `files`."""
    files: list[Entry] | None = None
    """Their contents are sent before, as for snapshots."""
    environment: dict[str, Any] | None = None
    """The v1 environment object."""
    description: str | None = None
    source_directory: str | None = None
    """Path of the folder on the machine that sent it."""


class Submitter(Body):
    """Who deploys, for building the environment: the interpreter, and variables such as proxies and indexes."""

    python: str | None = None
    python_version: str | None = Field(None, examples=["3.11"])
    user: str | None = None
    variables: Texts = Field({})


class Deployment(Body):
    models: list[str] | None = Field(None, examples=[["digits:1"]])
    """NAME:VERSION, or NAME for the newest."""
    inference: Inference | None = None
    """Null: one model is served by its framework."""
    submitter: Submitter | None = None

    def spec(self, *, type: str | None = None) -> DeploymentSpec:
        """Raises InvalidArgument."""
        return DeploymentSpec.parse(self.given(), type=type)

    def given(self) -> JsonObject:
        return {
            "models": self.models,
            "inference": None if self.inference is None else _given_inference(self.inference),
            "submitter": None if self.submitter is None else _given_submitter(self.submitter),
        }


def _given_inference(given: Inference) -> JsonObject:
    return {
        "entry_script": given.entry_script,
        "files": [[file.path, file.sha256, file.size, file.mode] for file in given.files or ()],
        "environment": given.environment,
        "description": given.description,
        "source_directory": given.source_directory,
    }


def _given_submitter(given: Submitter) -> JsonObject:
    return {
        "python": given.python,
        "python_version": given.python_version,
        "user": given.user,
        "variables": given.variables,
    }


routes = Routes("/workspaces/{workspace}/services", tag="web_services")
MAX_LOG_BYTES = 16 * 1024 * 1024
LOG = Media("application/octet-stream", "Bytes of the log; `X-Runyard-Offset` is the offset behind them.")
Record = EndpointRecord | ServiceRecord
QueryTexts = Annotated[Sequence[str], Query()]


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
def deploy(services: ServicesDep, who: CallerDep, workspace: str, body: NewWebService) -> Response:
    """Begin to deploy models as a web service."""
    new = new_service(body, type=body.type or "ACI", overwrite=body.overwrite)
    is_endpoint = (body.config or {}).get("version_name") is not None
    deploy = services.endpoints.deploy if is_endpoint else services.web_services.deploy
    return Json(services.service_records.whole(who, deploy(who, workspace, new)))


@routes.get("", Action.READ_ASSET, ServiceList)
def listing(
    services: ServicesDep,
    who: CallerDep,
    workspace: str,
    type: str | None = None,
    model: str | None = None,
    image: str | None = None,
    tag: QueryTexts = (),
    property: QueryTexts = (),
    created_by: str | None = None,
) -> Response:
    """List web services. Model and image are NAME or NAME:VERSION, a tag is KEY or KEY=VALUE."""
    wanted = ServiceFilter(type, model, image, parse_tag_filters(tag), parse_tag_filters(property), created_by)
    found = services.web_services.list(who, workspace, wanted)
    return Json(ServiceList([services.service_records.short(who, service) for service in found]))


@routes.get("/{name}", Action.READ_ASSET, Record)
def get(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """One web service."""
    return Json(services.service_records.whole(who, services.web_services.get(who, workspace, name)))


@routes.get("/{name}/wait", Action.READ_ASSET, Record)
async def wait(
    services: ServicesDep, who: CallerDep, workspace: str, name: str, version: QueryInt = 0, timeout: float = 30.0
) -> Response:
    """Long poll: the web service, once its version is above the given one or after `timeout` seconds (at most 60)."""

    def read(seconds: float) -> ServiceRecord:
        found = services.web_services.get(who, workspace, name)
        return services.service_records.wait(who, found, version, seconds)

    return Json(await wait_for_newer(services, read, version, timeout))


@routes.patch("/{name}", Action.CHANGE_DEPLOYMENT, Record)
def change(services: ServicesDep, who: CallerDep, workspace: str, name: str, body: ChangedService) -> Response:
    """Change a web service. Starts new workers only where the change needs them."""
    changed = services.web_services.change(who, workspace, name, changes_in(body))
    return Json(services.service_records.whole(who, changed))


@routes.post("/{name}/reload", Action.CHANGE_DEPLOYMENT, Record)
def reload(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """Restart the workers from the same files."""
    return Json(services.service_records.whole(who, services.web_services.reload(who, workspace, name)))


@routes.delete("/{name}", Action.CHANGE_DEPLOYMENT)
def delete(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """Delete a web service; quiet where there is none."""
    services.web_services.delete(who, workspace, name)
    return NoContent()


@routes.get("/{name}/logs", Action.READ_ASSET, LOG)
def logs(
    services: ServicesDep,
    who: CallerDep,
    workspace: str,
    name: str,
    offset: QueryInt = 0,
    limit: QueryCount = MAX_LOG_BYTES,
    lines: QueryCount | None = None,
) -> Response:
    """The log of a web service: bytes from an offset on, or the last lines."""
    return log_response(services, who, services.web_services.get(who, workspace, name), offset, limit, lines)


@routes.get("/{name}/keys", Action.READ_KEYS, Keys)
def keys(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """Both keys of a web service. 409 where it needs none."""
    return not_cached(Json(services.service_keys.get(who, workspace, name)))


@routes.post("/{name}/keys", Action.RENEW_KEYS, Keys)
def renew_key(services: ServicesDep, who: CallerDep, workspace: str, name: str, body: RenewedKey) -> Response:
    """Replace a key. Tokens signed before are refused afterwards."""
    return not_cached(Json(services.service_keys.renew(who, workspace, name, body.key, body.value)))


@routes.post("/{name}/token", Action.READ_KEYS, SignedToken)
def token(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """Sign a token that expires, for a web service with token authentication."""
    return not_cached(Json(services.service_keys.sign(who, workspace, name)))


@routes.get("/{name}/metrics", Action.READ_ASSET, EndpointMetrics | ServiceMetrics | NoMetrics)
def metrics(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
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


def log_response(
    services: Services, who: Principal, service: Asset, offset: int, limit: int, lines: int | None
) -> Bytes:
    """Response with the last lines of a log, or its bytes from an offset on."""
    if lines is not None:
        data, behind = services.service_records.last_lines(who, service, lines)
    else:
        data, behind = services.service_records.log(who, service, offset, min(limit, MAX_LOG_BYTES))
    return Bytes(data, headers={"X-Runyard-Offset": str(behind), "X-Content-Type-Options": "nosniff"})
