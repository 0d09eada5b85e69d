from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from runyard.core.definitions import assets
from runyard.core.definitions.fields import MergePatch
from runyard.core.policy import Action
from runyard.errors import InvalidArgument
from runyard.http.answers import Json, Nothing
from runyard.http.context import Use, Who
from runyard.http.models import Body, ChangedTexts, Object, Texts
from runyard.http.numbers import Whole
from runyard.http.records import AssetAnswer, EnvironmentAnswer, shown_asset
from runyard.http.routes.runs import wanted_tags
from runyard.http.routing import Routes
from runyard.model.assets import AssetKind
from runyard.model.nodes import Node
from runyard.services.assets import AssetChanges, Wanted
from runyard.services.computes import ComputeStatus

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
    services: Use,
    who: Who,
    workspace: str,
    kind: str,
    name: str | None = None,
    latest: bool = False,
    tag: Annotated[Sequence[str], Query()] = (),
    created_by: str | None = None,
) -> Response:
    """List assets of a kind by name, newest version first."""
    wanted = Wanted(name, latest_only=latest, tags=wanted_tags(tag), created_by=created_by)
    return Json(AssetList([shown_asset(asset) for asset in services.assets.list(who, workspace, kind, wanted)]))


@routes.post("/assets/{kind}", Action.CREATE_ASSET, AnyAsset)
def create_asset(services: Use, who: Who, workspace: str, kind: str, body: NewAsset) -> Response:
    """Register an asset. Datasets and datastores are refused here: they have their own routes."""
    return Json(shown_asset(services.assets.create(who, workspace, body.name, body.definition(kind), body.tags)))


@routes.get("/assets/{kind}/by-id/{asset_id}", Action.READ_ASSET, AnyAsset)
def get_asset_by_id(services: Use, who: Who, workspace: str, kind: str, asset_id: str) -> Response:
    """One asset by its id, also without a name."""
    found = services.assets.get_by_id(who, workspace, kind, asset_id)
    return Json(shown_asset(services.lineage.looked_up(who, found)))


@routes.get("/assets/{kind}/{name}", Action.READ_ASSET, AnyAsset)
def get_asset(
    services: Use,
    who: Who,
    workspace: str,
    kind: str,
    name: str,
    version: Whole | None = None,
    label: str | None = None,
) -> Response:
    """One version of an asset: the newest, or the given `version`, or for environments the given `label`."""
    if label is not None and kind == AssetKind.ENVIRONMENT:
        return Json(shown_asset(services.environment_labels.find(who, workspace, name, label)))
    found = services.assets.get(who, workspace, kind, name, version)
    return Json(shown_asset(services.lineage.looked_up(who, found)))


@routes.patch("/assets/{kind}/{name}", Action.CHANGE_ASSET, AnyAsset)
def patch_asset(
    services: Use, who: Who, workspace: str, kind: str, name: str, body: AssetPatch, version: Whole | None = None
) -> Response:
    """Merge into the body's top level and into the tags; a null removes."""
    if kind == AssetKind.ENVIRONMENT and body.labels is not None:
        services.environment_labels.put(who, workspace, name, version, body.labels)
    changes = AssetChanges(MergePatch(body.body), body.tags)
    return Json(shown_asset(services.assets.change(who, workspace, kind, name, version, changes)))


@routes.delete("/assets/{kind}/{name}", Action.CHANGE_ASSET)
def delete_asset(
    services: Use, who: Who, workspace: str, kind: str, name: str, version: Whole | None = None
) -> Response:
    """Delete one version of an asset, or all."""
    services.assets.delete(who, workspace, kind, name, version)
    return Nothing()


@routes.get("/computes/{name}/status", Action.READ_ASSET, ComputeStatus)
def compute_status(services: Use, who: Who, workspace: str, name: str) -> Response:
    """Node counts of a compute target by state."""
    return Json(services.computes.status(who, workspace, name))


@routes.get("/computes/{name}/nodes", Action.READ_ASSET, NodeList)
def compute_nodes(services: Use, who: Who, workspace: str, name: str) -> Response:
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
