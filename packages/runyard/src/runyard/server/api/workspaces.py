from dataclasses import dataclass

from pydantic import Field
from starlette.responses import Response

from runyard.assets.workspaces import ExperimentChanges, NewWorkspace
from runyard.core.policy import Action
from runyard.core.records.assets import Experiment, Workspace
from runyard.server.http.models import Body, ChangedTexts, Texts
from runyard.server.http.responses import Json, NoContent
from runyard.server.http.routes import Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes(tag="workspaces")
_WORKSPACE = "/workspaces/{workspace}"
_EXPERIMENT = f"{_WORKSPACE}/experiments/{{experiment}}"


@dataclass(frozen=True)
class WorkspaceList:
    workspaces: list[Workspace]


@dataclass(frozen=True)
class ExperimentList:
    experiments: list[Experiment]


class WorkspaceBody(Body):
    subscription_id: str | None = None
    resource_group: str | None = None
    location: str | None = None
    friendly_name: str | None = None
    description: str | None = None
    tags: Texts = Field({}, examples=[{"team": "vision"}])
    exist_ok: bool = False


class ExperimentBody(Body):
    tags: ChangedTexts = Field({}, examples=[{"stage": "final", "draft": None}])
    description: str | None = None
    archived: bool | None = None


@routes.get("/workspaces", Action.LIST_WORKSPACES, WorkspaceList)
def list_workspaces(services: ServicesDep, who: CallerDep) -> Response:
    """List the workspaces that the caller may read."""
    return Json(WorkspaceList(list(services.workspaces.list(who))))


@routes.get(_WORKSPACE, Action.READ_WORKSPACE, Workspace)
def get_workspace(services: ServicesDep, who: CallerDep, workspace: str) -> Response:
    """One workspace."""
    return Json(services.workspaces.get(who, workspace))


@routes.put(_WORKSPACE, Action.CHANGE_WORKSPACE, Workspace)
def put_workspace(services: ServicesDep, who: CallerDep, workspace: str, body: WorkspaceBody) -> Response:
    """Create a workspace with its two datastores."""
    given = NewWorkspace(
        subscription_id=body.subscription_id or "",
        resource_group=body.resource_group or "",
        location=body.location or "local",
        friendly_name=body.friendly_name or "",
        description=body.description or "",
        tags=body.tags,
    )
    return Json(services.workspaces.create(who, workspace, given, exist_ok=body.exist_ok))


@routes.delete(_WORKSPACE, Action.CHANGE_WORKSPACE)
def delete_workspace(services: ServicesDep, who: CallerDep, workspace: str) -> Response:
    """Delete a workspace that has no unfinished runs and no web services."""
    services.workspaces.delete(who, workspace)
    return NoContent()


@routes.get(f"{_WORKSPACE}/experiments", Action.READ_WORKSPACE, ExperimentList)
def list_experiments(services: ServicesDep, who: CallerDep, workspace: str) -> Response:
    """List the experiments of a workspace."""
    return Json(ExperimentList(list(services.workspaces.list_experiments(who, workspace))))


@routes.get(_EXPERIMENT, Action.READ_WORKSPACE, Experiment)
def get_experiment(services: ServicesDep, who: CallerDep, workspace: str, experiment: str) -> Response:
    """One experiment."""
    return Json(services.workspaces.get_experiment(who, workspace, experiment))


@routes.put(_EXPERIMENT, Action.CREATE_EXPERIMENT, Experiment)
def put_experiment(services: ServicesDep, who: CallerDep, workspace: str, experiment: str) -> Response:
    """Create an experiment, or return the existing one."""
    return Json(services.workspaces.ensure_experiment(who, workspace, experiment))


@routes.delete(_EXPERIMENT, Action.DELETE_EXPERIMENT)
def delete_experiment(services: ServicesDep, who: CallerDep, workspace: str, experiment: str) -> Response:
    """Delete an experiment with its runs."""
    services.runs.delete_of_experiment(who, workspace, experiment)
    services.workspaces.delete_experiment(who, workspace, experiment)
    return NoContent()


@routes.patch(_EXPERIMENT, Action.CREATE_EXPERIMENT, Experiment)
def patch_experiment(
    services: ServicesDep, who: CallerDep, workspace: str, experiment: str, body: ExperimentBody
) -> Response:
    """Describe, tag or archive an experiment."""
    changes = ExperimentChanges(body.tags, body.description, body.archived)
    return Json(services.workspaces.change_experiment(who, workspace, experiment, changes))
