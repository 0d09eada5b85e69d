from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from runyard.errors import Json as JsonObject
from runyard.errors import Unauthorized
from runyard.http.answers import Json, Nothing
from runyard.http.auth import workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Services, Use, Who
from runyard.http.fields import mapping, names, strings, text
from runyard.http.numbers import Whole
from runyard.http.records import shown_asset
from runyard.http.routes.runs import wanted_tags
from runyard.model.assets import Asset, AssetKind
from runyard.services.compute_body import PLACE_FIELDS
from runyard.services.tokens import Caller, Role

router = APIRouter(prefix="/workspaces/{workspace}", dependencies=[Depends(workspace_access)])


@router.get("/assets/{kind}")
def list_assets(
    services: Use,
    workspace: str,
    kind: str,
    name: str | None = None,
    latest: bool = False,
    tag: Annotated[Sequence[str], Query()] = (),
) -> Response:
    found = services.assets.list(workspace, kind, name, latest_only=latest, tags=wanted_tags(tag))
    return Json({"assets": [shown_asset(asset) for asset in found]})


@router.post("/assets/{kind}")
def create_asset(services: Use, who: Who, workspace: str, kind: str, body: JsonBody) -> Response:
    """Datasets and datastores have routes of their own, and are refused here."""
    _check_place(who, kind, mapping(body, "body"))
    made = services.assets.create(workspace, kind, text(body, "name"), _body_of(body), strings(body, "tags"))
    return Json(shown_asset(made))


@router.get("/assets/{kind}/by-id/{asset_id}")
def get_asset_by_id(services: Use, who: Who, workspace: str, kind: str, asset_id: str) -> Response:
    return Json(shown_asset(noted(services, who, services.assets.get_by_id(workspace, kind, asset_id))))


@router.get("/assets/{kind}/{name}")
def get_asset(
    services: Use,
    who: Who,
    workspace: str,
    kind: str,
    name: str,
    version: Whole | None = None,
    label: str | None = None,
) -> Response:
    if label is not None and kind == AssetKind.ENVIRONMENT:
        return Json(shown_asset(services.environment_labels.find(workspace, name, label)))
    return Json(shown_asset(noted(services, who, services.assets.get(workspace, kind, name, version))))


@router.patch("/assets/{kind}/{name}")
def patch_asset(
    services: Use, who: Who, workspace: str, kind: str, name: str, body: JsonBody, version: Whole | None = None
) -> Response:
    _check_place(who, kind, body.get("body"))
    if kind == AssetKind.ENVIRONMENT and body.get("labels") is not None:
        services.environment_labels.put(workspace, name, version, names(body, "labels"))
    return Json(shown_asset(services.assets.change(workspace, kind, name, version, body)))


@router.delete("/assets/{kind}/{name}")
def delete_asset(services: Use, workspace: str, kind: str, name: str, version: Whole | None = None) -> Response:
    services.assets.delete(workspace, kind, name, version)
    return Nothing()


@router.get("/computes/{name}/status")
def compute_status(services: Use, workspace: str, name: str) -> Response:
    return Json(services.computes.status(workspace, name))


@router.get("/computes/{name}/nodes")
def compute_nodes(services: Use, workspace: str, name: str) -> Response:
    return Json({"nodes": services.computes.nodes(workspace, name)})


def noted(services: Services, who: Caller, asset: Asset) -> Asset:
    """A dataset that a script looks up counts as read by its run."""
    if asset.kind is AssetKind.DATASET and who.role is Role.RUN and who.run_id is not None:
        services.lineage.looked_up(who.run_id, asset)
    return asset


def _check_place(who: Caller, kind: str, body: object) -> None:
    """A script may make clusters, but not send the service to machines of its choice."""
    if kind == AssetKind.COMPUTE and who.role is not Role.OWNER and isinstance(body, dict):
        for name in PLACE_FIELDS & body.keys():
            raise Unauthorized(f"{name} of a compute target is set with the owner's token, not with a run's.")


def _body_of(body: JsonObject) -> JsonObject:
    """A model may name its run and path beside the body, in place of files."""
    beside = {name: body[name] for name in ("run_id", "model_path") if body.get(name) is not None}
    return {**mapping(body, "body"), **beside}
