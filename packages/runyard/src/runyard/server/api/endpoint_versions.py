from starlette.responses import Response

from runyard.core.policy import Action
from runyard.server.api.web_services import (
    LOG,
    MAX_LOG_BYTES,
    ChangedService,
    NewVersion,
    changes_in,
    log_response,
    new_service,
)
from runyard.server.http.parameters import QueryCount, QueryInt
from runyard.server.http.responses import Json, NoContent
from runyard.server.http.routes import Routes
from runyard.server.services import CallerDep, ServicesDep
from runyard.serving.deployments.records import EndpointRecord

routes = Routes("/workspaces/{workspace}/services/{endpoint}/versions", tag="endpoint_versions")


@routes.post("", Action.DEPLOY, EndpointRecord)
def create(services: ServicesDep, who: CallerDep, workspace: str, endpoint: str, body: NewVersion) -> Response:
    """Add a version to an endpoint. `config` also takes traffic_percentile, is_default and is_control_version_type."""
    changed = services.endpoints.add_version(who, workspace, endpoint, new_service(body, type="AKS"))
    return Json(services.service_records.whole(who, changed))


@routes.patch("/{version}", Action.CHANGE_DEPLOYMENT, EndpointRecord)
def change(
    services: ServicesDep, who: CallerDep, workspace: str, endpoint: str, version: str, body: ChangedService
) -> Response:
    """Change a version, or its share of the requests."""
    changed = services.endpoints.change_version(who, workspace, endpoint, version, changes_in(body))
    return Json(services.service_records.whole(who, changed))


@routes.delete("/{version}", Action.CHANGE_DEPLOYMENT)
def delete(services: ServicesDep, who: CallerDep, workspace: str, endpoint: str, version: str) -> Response:
    """Remove a version. 409 for the default version."""
    services.endpoints.remove_version(who, workspace, endpoint, version)
    return NoContent()


@routes.get("/{version}/logs", Action.READ_ASSET, LOG)
def logs(
    services: ServicesDep,
    who: CallerDep,
    workspace: str,
    endpoint: str,
    version: str,
    offset: QueryInt = 0,
    limit: QueryCount = MAX_LOG_BYTES,
    lines: QueryCount | None = None,
) -> Response:
    """The log of a version: bytes from an offset on, or the last lines."""
    found = services.endpoints.version(who, workspace, endpoint, version)
    return log_response(services, who, found, offset, limit, lines)
