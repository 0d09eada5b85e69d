from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from runyard.assets.registry import AssetChanges, AssetFilter
from runyard.core.definitions import assets
from runyard.core.definitions.fields import MergePatch
from runyard.core.errors import InvalidArgument
from runyard.core.policy import Action
from runyard.core.records.assets import AssetKind
from runyard.core.records.nodes import Node
from runyard.runs.compute_targets import ComputeStatus
from runyard.server.api.records import AssetAnswer, EnvironmentAnswer, asset_answer
from runyard.server.api.runs import parse_tag_filters
from runyard.server.http.models import Body, ChangedTexts, Object, Texts
from runyard.server.http.parameters import QueryInt
from runyard.server.http.responses import Json, NoContent
from runyard.server.http.routes import Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes("/workspaces/{workspace}", tag="assets")
AnyAsset = EnvironmentAnswer | AssetAnswer
_ELSEWHERE = {
    AssetKind.DATASET: ("A dataset is saved at POST /datasets.", "Use dataset.register()."),
    AssetKind.DATASTORE: ("A datastore is registered at POST /datastores.", "Use Datastore.register_...()."),
}


@dataclass(frozen=True)
class AssetList:
    assets: list[AnyAsset]


@dataclass(frozen=True)
class NodeAnswer:
    workspace: str
    cluster: str
    name: str
    address: str
    state: str
    since: datetime
    run_id: str | None
    gpus: Sequence[str] | None


@dataclass(frozen=True)
class NodeList:
    nodes: list[NodeAnswer]


class NewAsset(Body):
    name: str = Field(examples=["resnet"])
    body: Object = Field({}, examples=[{"files": [["model.pkl", "0" * 64, 120, 420]]}])
    tags: Texts = Field({}, examples=[{"stage": "final"}])
    run_id: str | None = None
    """Run whose files below `model_path` become the files of a model."""
    model_path: str | None = None

    def definition(self, kind: str) -> assets.NewAsset:
        """Raise NotFound for an unknown kind, InvalidArgument for a body that the kind does not accept."""
        found = assets.asset_kind(kind)
        if found in _ELSEWHERE:
            problem, hint = _ELSEWHERE[found]
            raise InvalidArgument(problem, hint=hint)
        beside = {"run_id": self.run_id, "model_path": self.model_path}
        return assets.new_asset(found, {**self.body, **{name: one for name, one in beside.items() if one is not None}})


class AssetPatch(Body):
    body: Object = Field({}, examples=[{"description": "Trained on all of it"}])
    tags: ChangedTexts = Field({}, examples=[{"stage": "final", "draft": None}])
    labels: list[str] | None = None
    """Labels of an environment's version; replaces those it has."""


@routes.get("/assets/{kind}", Action.READ_ASSET, AssetList)
def list_assets(
    services: ServicesDep,
    who: CallerDep,
    workspace: str,
    kind: str,
    name: str | None = None,
    latest: bool = False,
    tag: Annotated[Sequence[str], Query()] = (),
    created_by: str | None = None,
) -> Response:
    """List assets of a kind by name, newest version first."""
    wanted = AssetFilter(name, latest_only=latest, tags=parse_tag_filters(tag), created_by=created_by)
    return Json(AssetList([asset_answer(asset) for asset in services.assets.list(who, workspace, kind, wanted)]))


@routes.post("/assets/{kind}", Action.CREATE_ASSET, AnyAsset)
def create_asset(services: ServicesDep, who: CallerDep, workspace: str, kind: str, body: NewAsset) -> Response:
    """Register an asset. Datasets and datastores are refused here: they have their own routes."""
    return Json(asset_answer(services.assets.create(who, workspace, body.name, body.definition(kind), body.tags)))


@routes.get("/assets/{kind}/by-id/{asset_id}", Action.READ_ASSET, AnyAsset)
def get_asset_by_id(services: ServicesDep, who: CallerDep, workspace: str, kind: str, asset_id: str) -> Response:
    """One asset by its id, also without a name."""
    found = services.assets.get_by_id(who, workspace, kind, asset_id)
    return Json(asset_answer(services.lineage.record_lookup(who, found)))


@routes.get("/assets/{kind}/{name}", Action.READ_ASSET, AnyAsset)
def get_asset(
    services: ServicesDep,
    who: CallerDep,
    workspace: str,
    kind: str,
    name: str,
    version: QueryInt | None = None,
    label: str | None = None,
) -> Response:
    """One version of an asset: the newest, or the given `version`, or for environments the given `label`."""
    if label is not None and kind == AssetKind.ENVIRONMENT:
        return Json(asset_answer(services.environment_labels.find(who, workspace, name, label)))
    found = services.assets.get(who, workspace, kind, name, version)
    return Json(asset_answer(services.lineage.record_lookup(who, found)))


@routes.patch("/assets/{kind}/{name}", Action.CHANGE_ASSET, AnyAsset)
def patch_asset(
    services: ServicesDep,
    who: CallerDep,
    workspace: str,
    kind: str,
    name: str,
    body: AssetPatch,
    version: QueryInt | None = None,
) -> Response:
    """Merge into the body's top level and into the tags; a null removes."""
    if kind == AssetKind.ENVIRONMENT and body.labels is not None:
        services.environment_labels.put(who, workspace, name, version, body.labels)
    changes = AssetChanges(MergePatch(body.body), body.tags)
    return Json(asset_answer(services.assets.change(who, workspace, kind, name, version, changes)))


@routes.delete("/assets/{kind}/{name}", Action.CHANGE_ASSET)
def delete_asset(
    services: ServicesDep, who: CallerDep, workspace: str, kind: str, name: str, version: QueryInt | None = None
) -> Response:
    """Delete one version of an asset, or all."""
    services.assets.delete(who, workspace, kind, name, version)
    return NoContent()


@routes.get("/computes/{name}/status", Action.READ_ASSET, ComputeStatus)
def compute_status(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """Node counts of a compute target by state."""
    return Json(services.computes.status(who, workspace, name))


@routes.get("/computes/{name}/nodes", Action.READ_ASSET, NodeList)
def compute_nodes(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """The nodes of a compute target."""
    return Json(NodeList([_node(node) for node in services.computes.nodes(who, workspace, name)]))


def _node(node: Node) -> NodeAnswer:
    return NodeAnswer(
        workspace=node.workspace,
        cluster=node.cluster,
        name=node.name,
        address=node.address,
        state=node.state.value,
        since=node.since,
        run_id=node.run_id,
        gpus=node.gpus,
    )
