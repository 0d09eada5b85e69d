from starlette.responses import Response

from runyard.core.policy import Action
from runyard.http.answers import Json, Nothing
from runyard.http.context import Use, Who
from runyard.http.numbers import Counting, Whole
from runyard.http.routes.web_services import (
    LARGEST_LOG_PIECE,
    LOG,
    ChangedService,
    NewVersion,
    changes_in,
    log_piece,
    new_service,
)
from runyard.http.routing import Routes
from runyard.services.web_services.shown import EndpointRecord

routes = Routes("/workspaces/{workspace}/services/{endpoint}/versions", tag="endpoint_versions")


@routes.post("", Action.DEPLOY, EndpointRecord)
def create(services: Use, who: Who, workspace: str, endpoint: str, body: NewVersion) -> Response:
    """Add a version to an endpoint. `config` also takes traffic_percentile, is_default and is_control_version_type."""
    changed = services.endpoints.add_version(who, workspace, endpoint, new_service(body, type="AKS"))
    return Json(services.service_records.whole(who, changed))


@routes.patch("/{version}", Action.CHANGE_DEPLOYMENT, EndpointRecord)
def change(services: Use, who: Who, workspace: str, endpoint: str, version: str, body: ChangedService) -> Response:
    """Change a version, or its share of the requests."""
    changed = services.endpoints.change_version(who, workspace, endpoint, version, changes_in(body))
    return Json(services.service_records.whole(who, changed))


@routes.delete("/{version}", Action.CHANGE_DEPLOYMENT)
def delete(services: Use, who: Who, workspace: str, endpoint: str, version: str) -> Response:
    """Remove a version. 409 for the default version."""
    services.endpoints.remove_version(who, workspace, endpoint, version)
    return Nothing()


@routes.get("/{version}/logs", Action.READ_ASSET, LOG)
def logs(
    services: Use,
    who: Who,
    workspace: str,
    endpoint: str,
    version: str,
    offset: Whole = 0,
    limit: Counting = LARGEST_LOG_PIECE,
    lines: Counting | None = None,
) -> Response:
    """The log of a version: bytes from an offset on, or the last lines."""
    found = services.endpoints.version(who, workspace, endpoint, version)
    return log_piece(services, who, found, offset, limit, lines)
